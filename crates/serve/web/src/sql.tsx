// SQL about stored records: a statement, its rows, and what there is to ask about.

import { useAnswer } from "./answer";
import { withQuery, type Fact } from "./api";
import { Copied } from "./copied";
import { go, link } from "./place";
import { quoted } from "./question";
import { grouped, moment } from "./words";

interface Rows {
    rows: Fact[];
    incomplete: { cause: string; text: string }[];
}

/** What people ask first, by its name. */
const EXAMPLES: [string, string][] = [
    [
        "Largest senders",
        `SELECT src, sum(bytes) AS bytes, count(*) AS flows
FROM flows GROUP BY src ORDER BY bytes DESC LIMIT 20`,
    ],
    [
        "Bytes by hour",
        `SELECT date, hour, sum(bytes + reverse_bytes) AS bytes, count(*) AS flows
FROM flows GROUP BY date, hour ORDER BY date, hour`,
    ],
    [
        "Names that do not exist",
        `SELECT client, name, count(*) AS queries FROM dns
WHERE rcode = 'NXDOMAIN' GROUP BY client, name ORDER BY queries DESC LIMIT 20`,
    ],
    [
        "Slow answers of servers",
        `SELECT time, client, host, target, status, first_byte_ns / 1e6 AS first_byte_ms
FROM http WHERE first_byte_ns IS NOT NULL ORDER BY first_byte_ns DESC LIMIT 20`,
    ],
    ["Columns of flows", "DESCRIBE flows"],
];

/** Numbers that name something, by their columns. */
const NAMES = /(port|id|vlan|status|protocol|type)$/;

function shown(name: string, value: unknown): string {
    if (value === null || value === undefined) return "–";
    if (typeof value === "object") return JSON.stringify(value);
    if (typeof value !== "number" || NAMES.test(name)) return String(value);
    // Moments in nanoseconds are more than a number holds here.
    if (name.endsWith("_ns") && value > Number.MAX_SAFE_INTEGER) return moment(value);
    return Number.isInteger(value) ? grouped(value) : String(value);
}

/** How a column stands: what is long is cut off, but for times. */
function side(name: string, rows: Fact[]): string {
    const values = rows.map((row) => row[name]).filter((value) => value !== undefined);
    if (values.every((value) => typeof value === "number")) return "number";
    return values.every((value) => /^\d{4}-\d\d-\d\dT/.test(String(value))) ? "" : "cut";
}

function Table({ rows }: { rows: Fact[] }) {
    const names = [...new Set(rows.flatMap(Object.keys))];
    const sides = Object.fromEntries(names.map((name) => [name, side(name, rows)]));
    return (
        <div class="wide" role="region" aria-label="Rows" tabIndex={0}>
            <table class="records">
                <thead>
                    <tr>
                        {names.map((name) => (
                            <th key={name} class={sides[name]}>
                                {name}
                            </th>
                        ))}
                    </tr>
                </thead>
                <tbody>
                    {rows.map((row, at) => (
                        <tr key={at}>
                            {names.map((name) => (
                                <td key={name} class={sides[name]} title={shown(name, row[name])}>
                                    {shown(name, row[name])}
                                </td>
                            ))}
                        </tr>
                    ))}
                </tbody>
            </table>
        </div>
    );
}

export function Sql({ chosen }: { chosen: Record<string, string> }) {
    const { sql = "" } = chosen;
    const path = withQuery("/api/v1/sql", { sql });
    const { state, again } = useAnswer<Rows>(path, true);
    const ask = (text: string) => (text === sql ? again() : go("sql", { ...chosen, sql: text }));
    const submit = (event: Event) => {
        event.preventDefault();
        const form = new FormData(event.currentTarget as HTMLFormElement);
        ask(String(form.get("sql") ?? "").trim());
    };
    const keys = (event: KeyboardEvent) => {
        if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
        (event.currentTarget as HTMLTextAreaElement).form?.requestSubmit();
    };
    const answer = state !== null && state !== "working" && "rows" in state ? state : null;
    return (
        <section class="panel">
            <form onSubmit={submit} key={sql}>
                <label>
                    SQL about stored records; empty: what there is
                    <textarea
                        name="sql"
                        rows={5}
                        defaultValue={sql}
                        spellcheck={false}
                        onKeyDown={keys}
                    />
                </label>
                <div class="row">
                    <span class="hint">
                        {EXAMPLES.map(([name, text], at) => (
                            <span key={name}>
                                {at > 0 && " · "}
                                <a href={link("sql", { ...chosen, sql: text })}>{name}</a>
                            </span>
                        ))}
                    </span>
                    <span class="grow" />
                    <button class="main" title="Ctrl and Enter">
                        Ask
                    </button>
                </div>
            </form>
            {state === "working" && <p class="notice">Reading …</p>}
            {state !== null && state !== "working" && "error" in state && (
                <p class="notice bad" role="alert">
                    {state.error}
                </p>
            )}
            {answer && (
                <div class={`notice ${answer.incomplete.length > 0 ? "warn" : ""}`} role="status">
                    <p class="result">
                        <b>{grouped(answer.rows.length)}</b> {sql ? "rows" : "kinds of records"}
                    </p>
                    {answer.incomplete.map(({ cause, text }) => (
                        <p key={cause}>Not complete: {text}.</p>
                    ))}
                </div>
            )}
            {answer && answer.rows.length > 0 && <Table rows={answer.rows} />}
            <Copied
                name="On a terminal"
                text={`ringside query --store DIR${sql ? ` ${quoted(sql)}` : ""}`}
            />
            <Copied name="For programs" text={`curl ${quoted(location.origin + path)}`} />
        </section>
    );
}
