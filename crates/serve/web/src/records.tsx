import { useState } from "preact/hooks";
import { useAnswer } from "./answer";
import { withQuery, type Fact, type Records as Answer } from "./api";
import { CallPanel } from "./call";
import { Copied } from "./copied";
import { packetsOf, type Column, type Kind, type Value } from "./kinds";
import { link, type Screen } from "./place";
import {
    NoRecordings,
    QuestionForm,
    commandOf,
    isQuestion,
    questionOf,
    quoted,
    useRecordings,
} from "./question";
import { Sankey } from "./sankey";
import { bytes, counted, grouped, moment } from "./words";

/** Rows that are asked for: more than a person looks through, and fewer than a browser feels. */
const ROWS = "500";
/** Records that a diagram adds up: as many as an answer has. */
const ADDED_UP = "10000";

type Chosen = Record<string, string>;

/** A column's name for the one direction, and with a dash before it for the other. */
function sorted(records: Fact[], columns: Column[], sort: string): Fact[] {
    const column = columns.find(({ key }) => key === sort.replace(/^-/, ""));
    if (!column) return records;
    const sign = sort.startsWith("-") ? -1 : 1;
    const compare = (one: Value, other: Value) => {
        if (one === other) return 0;
        // What is absent comes last, whichever way.
        if (one === null) return 1;
        if (other === null) return -1;
        const isLess = typeof one === "string" && typeof other === "string"
            ? one.localeCompare(other, "en", { numeric: true }) < 0
            : one < other;
        return isLess ? -sign : sign;
    };
    return [...records].sort((one, other) => compare(column.value(one), column.value(other)));
}

function Head({ column, screen, chosen }: { column: Column; screen: Screen; chosen: Chosen }) {
    const { key, name, number } = column;
    const [up, down] = [key, `-${key}`];
    const first = number ? down : up;
    const other = number ? up : down;
    const { sort = "" } = chosen;
    const state = sort === up ? "ascending" : sort === down ? "descending" : undefined;
    const next = link(screen, { ...chosen, sort: sort === first ? other : first });
    return (
        <th class={number ? "number" : ""} aria-sort={state}>
            <a href={next} title="Sort the rows below by it">
                {name}
                <span aria-hidden="true">{state ? (state === "ascending" ? " ▴" : " ▾") : ""}</span>
            </a>
        </th>
    );
}

/** Everything that is known of a record. */
function Details({ kind, fact }: { kind: Kind; fact: Fact }) {
    const shown = (value: unknown) => {
        // Moments in nanoseconds are more than a number holds here.
        const isMoment = typeof value === "number" && value > Number.MAX_SAFE_INTEGER;
        if (isMoment) return moment(value);
        return typeof value === "string" ? value : JSON.stringify(value);
    };
    const isSaid = ([, value]: [string, unknown]) => value !== null;
    return (
        <>
            {kind.details?.(fact)}
            <dl class="facts">
                {Object.entries(fact)
                    .filter(isSaid)
                    .map(([name, value]) => (
                        <div key={name} class={typeof value === "object" ? "whole" : ""}>
                            <dt>{name}</dt>
                            <dd>{shown(value)}</dd>
                        </div>
                    ))}
            </dl>
        </>
    );
}

function Cell({ column, fact }: { column: Column; fact: Fact }) {
    const { value, show, number, cut, bad } = column;
    const shown = show ? show(fact) : (value(fact) ?? "–");
    const classes = [number && "number", cut && "cut", bad?.(fact) && "bad-text"];
    return (
        <td class={classes.filter(Boolean).join(" ")} title={cut ? String(shown) : undefined}>
            {shown === "" ? "–" : shown}
        </td>
    );
}

interface RowProps {
    kind: Kind;
    fact: Fact;
    screen: Screen;
    chosen: Chosen;
}

function Row({ kind, fact, screen, chosen }: RowProps) {
    const [open, setOpen] = useState(false);
    const packets = link("packets", packetsOf(kind, fact, questionOf(chosen)));
    const call = kind.callId?.(fact) ?? "";
    const isChosen = call !== "" && call === chosen.call;
    return (
        <>
            <tr class={isChosen ? "chosen" : ""}>
                {kind.columns.map((column) => (
                    <Cell key={column.key} column={column} fact={fact} />
                ))}
                <td class="acts">
                    {call && (
                        <a
                            href={link(screen, { ...chosen, call })}
                            aria-current={isChosen ? "true" : undefined}
                        >
                            Ladder
                        </a>
                    )}
                    <a href={packets}>Packets</a>
                    <button class="plain" aria-expanded={open} onClick={() => setOpen(!open)}>
                        {open ? "Less" : "All"}
                    </button>
                </td>
            </tr>
            {open && (
                <tr class="opened">
                    <td colSpan={kind.columns.length + 1}>
                        <Details kind={kind} fact={fact} />
                    </td>
                </tr>
            )}
        </>
    );
}

/** How many there are, of what, and what may be missing. */
function Summary({ answer, kind }: { answer: Answer; kind: Kind }) {
    const { records, incomplete, search } = answer;
    const { plan } = search;
    return (
        <div class={`notice ${incomplete.length > 0 ? "warn" : ""}`} role="status">
            <p class="result">
                <b>{grouped(records.length)}</b> {kind.key === "talkers" ? "addresses" : "records"} of{" "}
                {counted(search.packets, "packet")}
            </p>
            {incomplete.map(({ cause, text }) => (
                <p key={cause}>Not complete: {text}.</p>
            ))}
            <p>
                Read: {bytes(plan.bytes.read)} of {bytes(plan.bytes.total)}
            </p>
            {search.notices.map((notice) => (
                <p key={notice}>{notice}</p>
            ))}
        </div>
    );
}

interface TableProps {
    answer: Answer;
    kind: Kind;
    screen: Screen;
    chosen: Chosen;
}

function Table({ answer, kind, screen, chosen }: TableProps) {
    const rows = sorted(answer.records, kind.columns, chosen.sort ?? "");
    return (
        <div class="wide" role="region" aria-label={`Table: ${kind.name}`} tabIndex={0}>
            <table class="records">
                <thead>
                    <tr>
                        {kind.columns.map((column) => (
                            <Head key={column.key} column={column} screen={screen} chosen={chosen} />
                        ))}
                        <th>
                            <span class="unseen">Packets and details</span>
                        </th>
                    </tr>
                </thead>
                <tbody>
                    {rows.map((fact) => (
                        <Row
                            key={answer.records.indexOf(fact)}
                            kind={kind}
                            fact={fact}
                            screen={screen}
                            chosen={chosen}
                        />
                    ))}
                </tbody>
            </table>
        </div>
    );
}

/** Of links that show the same in another way. */
function Tabs({ name, tabs }: { name: string; tabs: [string, string, boolean][] }) {
    return (
        <nav class="tabs" aria-label={name}>
            {tabs.map(([text, href, isHere]) => (
                <a key={text} href={href} aria-current={isHere ? "true" : undefined}>
                    {text}
                </a>
            ))}
        </nav>
    );
}

interface Props {
    screen: Screen;
    chosen: Chosen;
    kinds: Kind[];
}

/** Records of recorded packets: what they meant. */
export function Records({ screen, chosen, kinds }: Props) {
    const recordings = useRecordings();
    const kind = kinds.find(({ key }) => key === chosen.by) ?? (kinds[0] as Kind);
    const question = questionOf(chosen);
    const isDiagram = kind.hasDiagram === true && chosen.view === "sankey";
    const limit = isDiagram ? ADDED_UP : ROWS;
    const path = withQuery(`/api/v1/${kind.path}`, { ...question, ...kind.asks, limit });
    const { state, again } = useAnswer<Answer>(path, isQuestion(question));
    if (recordings?.length === 0) return <NoRecordings />;
    const answer = state !== null && state !== "working" && "records" in state ? state : null;
    return (
        <section class="panel">
            {kinds.length > 1 && (
                <Tabs
                    name="Grouped by"
                    tabs={kinds.map(({ key, name }) => [
                        name,
                        link(screen, { ...chosen, by: key, sort: "" }),
                        key === kind.key,
                    ])}
                />
            )}
            <QuestionForm
                screen={screen}
                chosen={chosen}
                recordings={recordings ?? []}
                again={again}
            >
                <button class="main">Show</button>
            </QuestionForm>
            {state === "working" && <p class="notice">Reading …</p>}
            {state !== null && state !== "working" && "error" in state && (
                <p class="notice bad" role="alert">
                    {state.error}
                </p>
            )}
            {answer && <Summary answer={answer} kind={kind} />}
            {answer && kind.callId && chosen.call && (
                <CallPanel
                    key={chosen.call}
                    kind={kind}
                    chosen={chosen}
                    fact={answer.records.find((fact) => kind.callId?.(fact) === chosen.call)}
                />
            )}
            {answer && kind.hasDiagram && (
                <Tabs
                    name="Shown as"
                    tabs={[
                        ["Table", link(screen, { ...chosen, view: "" }), !isDiagram],
                        ["Diagram", link(screen, { ...chosen, view: "sankey" }), isDiagram],
                    ]}
                />
            )}
            {answer && answer.records.length > 0 && isDiagram && (
                <Sankey records={answer.records} chosen={chosen} />
            )}
            {answer && answer.records.length > 0 && !isDiagram && (
                <Table answer={answer} kind={kind} screen={screen} chosen={chosen} />
            )}
            {kind.command && (
                <Copied name="On a terminal" text={commandOf(kind.command, question)} />
            )}
            <Copied name="For programs" text={`curl ${quoted(location.origin + path)}`} />
        </section>
    );
}
