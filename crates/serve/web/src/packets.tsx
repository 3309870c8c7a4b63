import { useEffect, useRef, useState } from "preact/hooks";
import { ask, withQuery, type Found, type Recording } from "./api";
import { go } from "./place";
import { bytes, counted, grouped, percent } from "./words";

const SPANS = ["1m", "10m", "1h", "24h", ""];
const NAMES = ["last minute", "last 10 minutes", "last hour", "last day", "all", "from … to …"];

/** Begin of a recorder's file, as its name has it: 20261121T053000Z-eth1-lane0-000000.pcapng. */
function startOf(name: string): string {
    const parts = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z-/.exec(name);
    if (!parts) return "–";
    const [, year, month, day, hour, minute, second] = parts;
    return `${year}-${month}-${day} ${hour}:${minute}:${second} UTC`;
}

function Recordings({ recordings }: { recordings: Recording[] }) {
    return (
        <section class="panel">
            <h2>Recorded</h2>
            <table>
                <thead>
                    <tr>
                        <th>Recording</th>
                        <th class="number">Files</th>
                        <th class="number">Size</th>
                        <th>Oldest file begins</th>
                        <th>Newest file begins</th>
                    </tr>
                </thead>
                <tbody>
                    {recordings.map(({ name, files, count, bytes: size, error }) => (
                        <tr key={name}>
                            <td>{name}</td>
                            <td class="number">{grouped(count)}</td>
                            <td class="number">{bytes(size)}</td>
                            <td colSpan={error ? 2 : 1} class={error ? "bad-text" : ""}>
                                {error ?? startOf(files[0]?.name ?? "")}
                            </td>
                            {!error && <td>{startOf(files.at(-1)?.name ?? "")}</td>}
                        </tr>
                    ))}
                </tbody>
            </table>
        </section>
    );
}

function Plan({ found }: { found: Found }) {
    const { plan, lost_while_recorded: gaps } = found;
    const ends = {
        complete: "Complete: all that was recorded was searched.",
        incomplete: "Not complete: something is missing in the recordings.",
        stopped: "Not complete: the search was ended early.",
    };
    return (
        <div class="notice" role="status">
            <p class="result">
                <b>{grouped(found.packets)}</b> {found.packets === 1 ? "packet" : "packets"}
            </p>
            <p class={found.end === "complete" ? "good-text" : "bad-text"}>{ends[found.end]}</p>
            <dl class="plan">
                <dt>Files</dt>
                <dd>
                    {grouped(plan.files.total)}, {grouped(plan.files.passed)} passed by
                    {plan.files.without_index > 0 &&
                        `, ${grouped(plan.files.without_index)} without an index`}
                </dd>
                <dt>Blocks</dt>
                <dd>
                    {grouped(plan.blocks.total)}: {grouped(plan.blocks.outside)} outside the time,{" "}
                    {grouped(plan.blocks.pruned)} pruned, {grouped(plan.blocks.read)} read
                </dd>
                <dt>Read</dt>
                <dd>
                    {bytes(plan.bytes.read)} of {bytes(plan.bytes.total)} (
                    {percent(plan.bytes.read, plan.bytes.total)}), and{" "}
                    {bytes(plan.bytes.read_of_indexes)} of indexes
                </dd>
            </dl>
            {gaps.slice(0, 10).map((gap) => (
                <p class="bad-text" key={`${gap.lane} ${gap.from}`}>
                    Lane {gap.lane} lost{" "}
                    {counted(
                        Object.values(gap.lost).reduce((sum, frames) => sum + frames, 0),
                        "packet",
                    )}{" "}
                    between {gap.from} and {gap.to}: {Object.keys(gap.lost).join(", ")}
                </p>
            ))}
            {found.notices.map((notice) => (
                <p key={notice} class="hint">
                    {notice}
                </p>
            ))}
        </div>
    );
}

function quoted(text: string): string {
    return `'${text.replaceAll("'", "'\\''")}'`;
}

/** The same question for a terminal. */
function commandOf(chosen: Record<string, string>): string {
    const words = ["ringside find -r", chosen.recording || "DIR"];
    if (chosen.last) words.push("--last", chosen.last);
    if (chosen.from) words.push("--from", chosen.from);
    if (chosen.to) words.push("--to", chosen.to);
    if (chosen.filter) words.push(quoted(chosen.filter));
    return words.join(" ");
}

interface Props {
    chosen: Record<string, string>;
    mayGet: boolean;
}

type Answer = Found | { error: string } | "working" | null;

/** What is recorded, found and downloaded. */
export function Packets({ chosen, mayGet }: Props) {
    const [recordings, setRecordings] = useState<Recording[] | null>(null);
    const [answer, setAnswer] = useState<Answer>(null);
    const search = useRef<AbortController | null>(null);
    const { filter = "", last = "", from = "", to = "", recording = "" } = chosen;
    const asked = { filter, last, from, to, recording };
    const isSpan = from !== "" || to !== "" || chosen.span === "given";
    useEffect(() => {
        ask<Recording[]>("/api/v1/recordings").then(setRecordings, () => setRecordings([]));
    }, []);
    const find = () => {
        search.current?.abort();
        const gone = new AbortController();
        search.current = gone;
        setAnswer("working");
        ask<Found>(withQuery("/api/v1/find", asked), { signal: gone.signal }).then(
            setAnswer,
            (error: Error) => gone.signal.aborted || setAnswer({ error: error.message }),
        );
    };
    // A link with a question is answered at once.
    useEffect(() => {
        if (filter !== "" || last !== "" || from !== "") find();
        return () => search.current?.abort();
    }, [filter, last, from, to, recording]);
    const choose = (change: Record<string, string>) =>
        go("packets", { ...asked, ...change }, true);
    /** What stands in the form now, whether it was asked or not. */
    const written = (element: HTMLFormElement) => {
        const form = new FormData(element);
        const text = (name: string) => String(form.get(name) ?? "").trim();
        const span = isSpan ? { from: text("from"), to: text("to") } : {};
        return { ...asked, filter: text("filter"), ...span };
    };
    const download = (event: Event) => {
        const { form } = event.currentTarget as HTMLButtonElement;
        const link = document.createElement("a");
        link.href = withQuery("/api/v1/packets", written(form as HTMLFormElement));
        link.download = "packets.pcapng";
        link.click();
    };
    const submit = (event: Event) => {
        event.preventDefault();
        const next = written(event.currentTarget as HTMLFormElement);
        const same = Object.entries(next).every(([name, value]) => value === asked[name as "to"]);
        if (same) find();
        else go("packets", next);
    };
    const pickSpan = (event: Event) => {
        const at = Number((event.currentTarget as HTMLSelectElement).value);
        const given = SPANS[at];
        if (given === undefined) choose({ last: "", span: "given" });
        else choose({ last: given, from: "", to: "", span: "" });
    };
    const span = isSpan ? SPANS.length : Math.max(0, SPANS.indexOf(last));
    if (recordings?.length === 0) {
        return (
            <p class="notice warn">
                No recordings are served. Start the service with <code>--recordings DIR</code>
            </p>
        );
    }
    return (
        <>
            <section class="panel">
                <h2>Find packets</h2>
                <form onSubmit={submit} key={`${filter} ${from} ${to}`}>
                    <label>
                        Filter, as tcpdump has it
                        <input
                            name="filter"
                            defaultValue={filter}
                            placeholder="host 192.0.2.7 and tcp port 443 (empty: all)"
                            spellcheck={false}
                            autofocus
                        />
                    </label>
                    <div class="row">
                        <label>
                            Time
                            <select value={String(span)} onChange={pickSpan}>
                                {NAMES.map((name, at) => (
                                    <option key={name} value={String(at)}>
                                        {name}
                                    </option>
                                ))}
                            </select>
                        </label>
                        {isSpan && (
                            <>
                                <label>
                                    From
                                    <input
                                        name="from"
                                        defaultValue={from}
                                        placeholder="2026-03-01T12:00:00Z"
                                    />
                                </label>
                                <label>
                                    To
                                    <input
                                        name="to"
                                        defaultValue={to}
                                        placeholder="2026-03-01T12:05:00Z"
                                    />
                                </label>
                            </>
                        )}
                        <label>
                            Recording
                            <select
                                value={recording}
                                onChange={(e) => choose({ recording: e.currentTarget.value })}
                            >
                                <option value="">all</option>
                                {recordings?.map(({ name }) => (
                                    <option key={name} value={name}>
                                        {name}
                                    </option>
                                ))}
                            </select>
                        </label>
                        <span class="grow" />
                        <button class="main">Count</button>
                        {mayGet && (
                            <button type="button" onClick={download}>
                                Download pcapng
                            </button>
                        )}
                    </div>
                </form>
                {answer === "working" && <p class="notice">Searching …</p>}
                {answer && answer !== "working" && "error" in answer && (
                    <p class="notice bad" role="alert">
                        {answer.error}
                    </p>
                )}
                {answer && answer !== "working" && "plan" in answer && <Plan found={answer} />}
                <p class="hint">
                    On a terminal: <code>{commandOf(asked)}</code>
                </p>
            </section>
            {recordings && <Recordings recordings={recordings} />}
        </>
    );
}
