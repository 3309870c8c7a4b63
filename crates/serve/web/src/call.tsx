// One call: who said what to whom, as a ladder, and how well its media arrived.

import { useEffect, useRef } from "preact/hooks";
import { useAnswer } from "./answer";
import { withQuery, type CallLadder, type Fact, type SipMessage } from "./api";
import { Copied } from "./copied";
import { end, number, objects, packetsOf, quality, text, type Kind } from "./kinds";
import { link } from "./place";
import { commandOf, questionOf, quoted } from "./question";
import { grouped, moment, percent, span } from "./words";
import "./call.css";

/** Messages that are asked for: some screens of them; the rest is counted. */
const MESSAGES = "500";
/** Up to the last packet: a call is over 5 s after its end, and then some. */
const BEHIND_MS = 6_000;
/** From which status on a call was refused. */
const REFUSED = 400;

/** Words of RFC 3261, section 21, that are met most. A message's own words are not kept. */
const PHRASES: Record<number, string> = {
    100: "Trying",
    180: "Ringing",
    181: "Call Is Being Forwarded",
    182: "Queued",
    183: "Session Progress",
    200: "OK",
    202: "Accepted",
    301: "Moved Permanently",
    302: "Moved Temporarily",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    407: "Proxy Authentication Required",
    408: "Request Timeout",
    415: "Unsupported Media Type",
    480: "Temporarily Unavailable",
    481: "Call/Transaction Does Not Exist",
    486: "Busy Here",
    487: "Request Terminated",
    488: "Not Acceptable Here",
    500: "Server Internal Error",
    503: "Service Unavailable",
    600: "Busy Everywhere",
    603: "Decline",
};

type Host = CallLadder["hosts"][number];

function shown({ address, port }: Host): string {
    return end({ address, port }, "address", "port") ?? "";
}

/** What a message says, in a line. */
function said({ method, status, cseq_method, sdp }: SipMessage): string {
    const what = status === null ? (method ?? "?") : `${status} ${PHRASES[status] ?? ""}`.trim();
    const of = status === null ? "" : ` (${cseq_method})`;
    return `${what}${of}${sdp ? " + SDP" : ""}`;
}

function colour({ status }: SipMessage): string {
    if (status === null) return "request";
    if (status >= REFUSED) return "refused";
    return status >= 200 && status < 300 ? "final" : "progress";
}

function Message({ message, hosts }: { message: SipMessage; hosts: Host[] }) {
    const { from, to, since_ns } = message;
    const lane = 100 / hosts.length;
    const first = Math.min(from, to);
    const place = {
        // From the middle of one lane to that of another.
        marginLeft: `${lane * (first + (from === to ? 0 : 0.5))}%`,
        width: `${lane * (Math.abs(from - to) || 1)}%`,
    };
    const way = from === to ? "self" : from < to ? "right" : "left";
    const [sender, receiver] = [hosts[from], hosts[to]];
    return (
        <tr>
            <td class="number">{(since_ns / 1e9).toFixed(6)}</td>
            <td colSpan={hosts.length} class="lanes" style={{ backgroundSize: `${lane}% 100%` }}>
                <div class={`message ${colour(message)} ${way}`} style={place}>
                    <span title={said(message)}>{said(message)}</span>
                </div>
                <span class="unseen">
                    {sender && `from ${shown(sender)}`} {receiver && `to ${shown(receiver)}`}
                </span>
            </td>
        </tr>
    );
}

/** Columns are hosts, rows messages, from above in the order in which they came. */
function Ladder({ ladder }: { ladder: CallLadder }) {
    const { hosts, messages } = ladder;
    return (
        <div class="wide ladder" role="region" aria-label="Messages of the call" tabIndex={0}>
            <table style={{ minWidth: `${96 + 150 * hosts.length}px` }}>
                <thead>
                    <tr>
                        <th class="number">Seconds</th>
                        {hosts.map((host) => (
                            <th key={shown(host)}>{shown(host)}</th>
                        ))}
                    </tr>
                </thead>
                <tbody>
                    {messages.map((message, at) => (
                        <Message key={at} message={message} hosts={hosts} />
                    ))}
                </tbody>
            </table>
        </div>
    );
}

type Line = [name: string, value: string | null, bad?: boolean];

function Lines({ lines }: { lines: Line[] }) {
    return (
        <dl class="lines">
            {lines.map(([name, value, bad]) => (
                <div key={name}>
                    <dt>{name}</dt>
                    <dd class={bad ? "bad-text" : ""}>{value ?? "–"}</dd>
                </div>
            ))}
        </dl>
    );
}

/** Below it, most listeners are not content (as the table of calls has it). */
const MOS_MIN = 3.1;

function or(value: number | null, show: (value: number) => string = String): string | null {
    return value === null ? null : show(value);
}

/** A stream with R, MOS, and everything that they were made of. */
function Quality({ stream }: { stream: Fact }) {
    const [expected, lost] = [number(stream, "expected") ?? 0, number(stream, "lost") ?? 0];
    const of = (name: string) => quality(stream, name);
    const mos = of("mos_lq");
    const hasQuality = mos !== null;
    return (
        <section class="stream">
            <h3>
                {end(stream, "source", "source_port")} → {end(stream, "destination", "destination_port")}
            </h3>
            <Lines
                lines={[
                    ["Codec", text(stream, "codec")],
                    ["Packets", or(number(stream, "packets"), grouped)],
                    [
                        "Lost",
                        `${grouped(lost)} of ${grouped(expected)}, ${percent(lost, expected)}`,
                        lost > 0,
                    ],
                    ["Out of order", or(number(stream, "out_of_order"), grouped)],
                    ["Jitter, mean", or(number(stream, "jitter_mean_ns"), span)],
                    ["Jitter, max", or(number(stream, "jitter_max_ns"), span)],
                    ["MOS, listening", or(mos), hasQuality && mos < MOS_MIN],
                    ["R", or(of("r"))],
                    ["MOS, conversation", or(of("mos_cq"))],
                ]}
            />
            {hasQuality ? (
                <>
                    <h4>Inputs of the MOS (E-model)</h4>
                    <Lines
                        lines={[
                            ["Ie, codec", or(of("ie"))],
                            ["Bpl, codec", or(of("bpl"))],
                            ["Not played", or(of("loss_percent"), (part) => `${part} %`)],
                            ["BurstR", or(of("burst_ratio"))],
                            ["Jitter buffer", or(of("buffer_ms"), (ms) => `${ms} ms`)],
                            ["Delay", or(of("delay_ms"), (ms) => `${ms} ms`)],
                        ]}
                    />
                </>
            ) : (
                <p class="hint">No MOS: of this codec the inputs are not known.</p>
            )}
        </section>
    );
}

function Call({ fact }: { fact: Fact }) {
    const streams = objects(fact, "streams");
    return (
        <>
            <Lines
                lines={[
                    ["Caller", text(fact, "caller")],
                    ["Callee", text(fact, "callee")],
                    ["Ending", text(fact, "ending")],
                    ["Rang after", or(number(fact, "post_dial_delay_ns"), span)],
                    ["Talked", or(number(fact, "talk_ns"), span)],
                ]}
            />
            {streams.length === 0 && <p class="hint">No media of this call was seen.</p>}
            {streams.map((stream, at) => (
                <Quality key={at} stream={stream} />
            ))}
        </>
    );
}

/** The question about one call: that of its table, in the time of the call if that is known. */
function pathOf(kind: Kind, chosen: Record<string, string>, fact: Fact | undefined): string {
    const { call = "" } = chosen;
    const question = questionOf(chosen);
    const isOver = fact !== undefined && number(fact, "ended_ns") !== null;
    const { from = "", to = "" } = isOver ? packetsOf(kind, fact, question) : {};
    const until = to && new Date(Date.parse(to) + BEHIND_MS).toISOString();
    const narrowed = from && until ? { ...question, last: "", from, to: until } : question;
    const path = `/api/v1/calls/${encodeURIComponent(call)}/ladder`;
    return withQuery(path, { ...narrowed, limit: MESSAGES });
}

interface Props {
    kind: Kind;
    chosen: Record<string, string>;
    /** The call as the table has it, if it is there. */
    fact: Fact | undefined;
}

export function CallPanel({ kind, chosen, fact }: Props) {
    const { call = "" } = chosen;
    const path = pathOf(kind, chosen, fact);
    const { state } = useAnswer<CallLadder>(path, true);
    const command = commandOf(`ringside calls --ladder ${quoted(call)}`, questionOf(chosen));
    const head = useRef<HTMLHeadingElement>(null);
    useEffect(() => head.current?.focus(), []);
    const answer = state !== null && state !== "working" && "messages" in state ? state : null;
    const first = answer?.messages[0];
    return (
        <section class="call">
            <div class="panel-head">
                <h2 ref={head} tabIndex={-1}>
                    Call {call}
                </h2>
                <a href={link("calls", { ...chosen, call: "" })}>Close</a>
            </div>
            {(state === "working" || state === null) && <p class="notice">Reading …</p>}
            {state !== null && state !== "working" && "error" in state && (
                <p class="notice bad" role="alert">
                    {state.error}
                </p>
            )}
            {answer?.incomplete.map(({ cause, text: why }) => (
                <p class="notice warn" key={cause}>
                    Not complete: {why}.
                </p>
            ))}
            {answer && !first && (
                <p class="notice warn">No message of this call is among these packets.</p>
            )}
            {answer && first && (
                <div class="beside">
                    <div>
                        <p class="hint">
                            {grouped(answer.messages.length)} messages from {moment(first.time_ns)} UTC
                        </p>
                        <Ladder ladder={answer} />
                    </div>
                    <div>
                        {answer.calls.map((call, at) => (
                            <Call key={at} fact={call} />
                        ))}
                    </div>
                </div>
            )}
            <Copied name="On a terminal" text={command} />
            <Copied name="For programs" text={`curl ${quoted(location.origin + path)}`} />
        </section>
    );
}
