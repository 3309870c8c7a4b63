// Which recorded packets are meant: the form that all screens of them share.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask, type Recording } from "./api";
import { go, type Screen } from "./place";

const SPANS = ["1m", "10m", "1h", "24h", ""];
const NAMES = ["last minute", "last 10 minutes", "last hour", "last day", "all", "from … to …"];

type Chosen = Record<string, string>;

/** What a question has in an address, each part empty if it asks nothing. */
export function questionOf(chosen: Chosen) {
    const { filter = "", last = "", from = "", to = "", recording = "" } = chosen;
    return { filter, last, from, to, recording };
}

/** True if something is asked, so that an answer is wanted at once. */
export function isQuestion({ filter, last, from, to }: ReturnType<typeof questionOf>): boolean {
    return [filter, last, from, to].some((part) => part !== "");
}

/** The recordings, once they are known. */
export function useRecordings(): Recording[] | null {
    const [recordings, set] = useState<Recording[] | null>(null);
    useEffect(() => {
        ask<Recording[]>("/api/v1/recordings").then(set, () => set([]));
    }, []);
    return recordings;
}

export function NoRecordings() {
    return (
        <p class="notice warn">
            No recordings are served. Start the service with <code>--recordings DIR</code>
        </p>
    );
}

/** A word of a shell, whatever is in it. */
export function quoted(text: string): string {
    return `'${text.replaceAll("'", "'\\''")}'`;
}

/** The same question for a terminal. */
export function commandOf(command: string, chosen: Chosen): string {
    const words = [command, "-r", chosen.recording || "DIR"];
    if (chosen.last) words.push("--last", chosen.last);
    if (chosen.from) words.push("--from", chosen.from);
    if (chosen.to) words.push("--to", chosen.to);
    if (chosen.filter) words.push(quoted(chosen.filter));
    return words.join(" ");
}

function isSpan(chosen: Chosen): boolean {
    return Boolean(chosen.from || chosen.to) || chosen.span === "given";
}

/** What stands in the form now, whether it was asked or not. */
export function written(element: HTMLFormElement, chosen: Chosen): Chosen {
    const form = new FormData(element);
    const text = (name: string) => String(form.get(name) ?? "").trim();
    const span: Chosen = isSpan(chosen) ? { from: text("from"), to: text("to") } : {};
    return { ...chosen, filter: text("filter"), ...span };
}

function Moment({ name, label, value }: { name: string; label: string; value: string }) {
    return (
        <label>
            {label}
            <input name={name} defaultValue={value} placeholder="2026-03-01T12:00:00Z" />
        </label>
    );
}

interface Props {
    screen: Screen;
    chosen: Chosen;
    recordings: Recording[];
    /** The same question is asked once more. */
    again: () => void;
    children: ComponentChildren;
}

/** Filter, time and recording; `children` are its buttons. */
export function QuestionForm({ screen, chosen, recordings, again, children }: Props) {
    const question = questionOf(chosen);
    const { filter, last, from, to, recording } = question;
    const choose = (change: Chosen) => go(screen, { ...chosen, ...change }, true);
    const submit = (event: Event) => {
        event.preventDefault();
        const next = written(event.currentTarget as HTMLFormElement, chosen);
        const same = Object.entries(next).every(([name, value]) => value === (chosen[name] ?? ""));
        if (same) again();
        else go(screen, next);
    };
    const pickSpan = (event: Event) => {
        const given = SPANS[Number((event.currentTarget as HTMLSelectElement).value)];
        if (given === undefined) choose({ last: "", span: "given" });
        else choose({ last: given, from: "", to: "", span: "" });
    };
    const span = isSpan(chosen) ? SPANS.length : Math.max(0, SPANS.indexOf(last));
    return (
        <form onSubmit={submit} key={`${filter} ${from} ${to}`}>
            <label>
                Filter, as tcpdump has it
                <input
                    name="filter"
                    defaultValue={filter}
                    placeholder="host 192.0.2.7 and tcp port 443 (empty: all)"
                    spellcheck={false}
                    autofocus={!isQuestion(question)}
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
                {isSpan(chosen) && (
                    <>
                        <Moment name="from" label="From" value={from} />
                        <Moment name="to" label="To" value={to} />
                    </>
                )}
                <label>
                    Recording
                    <select
                        value={recording}
                        onChange={(event) => choose({ recording: event.currentTarget.value })}
                    >
                        <option value="">all</option>
                        {recordings.map(({ name }) => (
                            <option key={name} value={name}>
                                {name}
                            </option>
                        ))}
                    </select>
                </label>
                <span class="grow" />
                {children}
            </div>
        </form>
    );
}
