import { useEffect, useRef, useState } from "preact/hooks";
import { ask, withQuery, type Fact, type Records as Answer } from "./api";
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
import { bytes, counted, grouped, moment } from "./words";

/** Rows that are asked for: more than a person looks through, and fewer than a browser feels. */
const ROWS = "500";

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

function Row({ kind, fact, chosen }: { kind: Kind; fact: Fact; chosen: Chosen }) {
    const [open, setOpen] = useState(false);
    const packets = link("packets", packetsOf(kind, fact, questionOf(chosen)));
    return (
        <>
            <tr>
                {kind.columns.map((column) => (
                    <Cell key={column.key} column={column} fact={fact} />
                ))}
                <td class="acts">
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
                            chosen={chosen}
                        />
                    ))}
                </tbody>
            </table>
        </div>
    );
}

/** A text to be taken elsewhere. Browsers let a page copy on this host and over TLS. */
export function Copied({ name, text }: { name: string; text: string }) {
    const [done, setDone] = useState(false);
    const copy = () => navigator.clipboard.writeText(text).then(() => setDone(true));
    useEffect(() => setDone(false), [text]);
    return (
        <p class="hint copied">
            {name}: <code>{text}</code>
            {isSecureContext && (
                <button class="plain" onClick={copy} aria-label={`Copy: ${name}`}>
                    {done ? "Copied" : "Copy"}
                </button>
            )}
        </p>
    );
}

type State<T> = T | { error: string } | "working" | null;

/** The answer to a question, which is asked anew when it changes. */
export function useAnswer<T>(path: string, isAsked: boolean) {
    const [state, set] = useState<State<T>>(null);
    const asked = useRef<AbortController | null>(null);
    const again = () => {
        asked.current?.abort();
        const gone = new AbortController();
        asked.current = gone;
        set("working");
        ask<T>(path, { signal: gone.signal }).then(
            set,
            (error: Error) => gone.signal.aborted || set({ error: error.message }),
        );
    };
    useEffect(() => {
        set(null);
        if (isAsked) again();
        return () => asked.current?.abort();
    }, [path]);
    return { state, again };
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
    const path = withQuery(`/api/v1/${kind.path}`, { ...question, ...kind.asks, limit: ROWS });
    const { state, again } = useAnswer<Answer>(path, isQuestion(question));
    if (recordings?.length === 0) return <NoRecordings />;
    const answer = state !== null && state !== "working" && "records" in state ? state : null;
    return (
        <section class="panel">
            {kinds.length > 1 && (
                <nav class="tabs" aria-label="Grouped by">
                    {kinds.map(({ key, name }) => (
                        <a
                            key={key}
                            href={link(screen, { ...chosen, by: key, sort: "" })}
                            aria-current={key === kind.key ? "true" : undefined}
                        >
                            {name}
                        </a>
                    ))}
                </nav>
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
            {answer && answer.records.length > 0 && (
                <Table answer={answer} kind={kind} screen={screen} chosen={chosen} />
            )}
            {kind.command && (
                <Copied name="On a terminal" text={commandOf(kind.command, question)} />
            )}
            <Copied name="For programs" text={`curl ${quoted(location.origin + path)}`} />
        </section>
    );
}
