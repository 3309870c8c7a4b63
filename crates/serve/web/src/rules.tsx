import { useEffect, useState } from "preact/hooks";
import { ask, order, type Changed, type Rules as Answer, type Rule, type Tried } from "./api";
import { chosenCapture, type Live } from "./live";
import { go } from "./place";
import { bytes, counted, grouped } from "./words";

function Trial({ tried }: { tried: Tried }) {
    return (
        <div class="notice" role="status">
            <strong>Dry run over what is recorded{tried.complete ? "" : " (ended early)"}</strong>
            <table>
                <tbody>
                    {tried.rules.map((rule) => (
                        <tr key={rule.id}>
                            <td class="number">{counted(rule.frames, "packet")}</td>
                            <td class="number">{bytes(rule.bytes)}</td>
                            <td>
                                <code>{rule.text}</code>
                            </td>
                        </tr>
                    ))}
                    <tr>
                        <td class="number">{counted(tried.undecided, "packet")}</td>
                        <td />
                        <td>no rule decides about</td>
                    </tr>
                </tbody>
            </table>
            {tried.notices.map((notice) => (
                <p key={notice}>{notice}</p>
            ))}
        </div>
    );
}

function List({ rules, remove }: { rules: Answer; remove: ((rule: Rule) => void) | null }) {
    return (
        <table>
            <thead>
                <tr>
                    <th class="number">Id</th>
                    <th>Rule</th>
                    <th class="number">Frames</th>
                    <th class="number">Bytes</th>
                    <th>Decided in</th>
                    <th>
                        <span class="unseen">Change</span>
                    </th>
                </tr>
            </thead>
            <tbody>
                {rules.rules.map((rule) => (
                    <tr key={rule.id}>
                        <td class="number">{rule.id}</td>
                        <td>
                            <code>{rule.text.replace(/^\d+: /, "")}</code>
                        </td>
                        <td class="number">{grouped(rule.frames)}</td>
                        <td class="number">{bytes(rule.bytes)}</td>
                        <td>{rule.place}</td>
                        <td class="number">
                            {remove && (
                                <button
                                    class="plain"
                                    onClick={() => remove(rule)}
                                    aria-label={`Delete rule ${rule.id}`}
                                >
                                    Delete
                                </button>
                            )}
                        </td>
                    </tr>
                ))}
                <tr class="total">
                    <td />
                    <td>
                        all others: <code>{rules.default?.verdict}</code>
                    </td>
                    <td class="number">{grouped(rules.default?.frames)}</td>
                    <td class="number">{bytes(rules.default?.bytes ?? 0)}</td>
                    <td />
                    <td />
                </tr>
            </tbody>
        </table>
    );
}

interface Props {
    live: Live;
    chosen: Record<string, string>;
    mayChange: boolean;
}

/** The rules of a capture: what each matched, tried before they count, and changed back. */
export function Rules({ live, chosen, mayChange }: Props) {
    const capture = chosenCapture(live, chosen.capture);
    const [rules, setRules] = useState<Answer | string | null>(null);
    const [text, setText] = useState("");
    const [said, setSaid] = useState<Tried | { bad: boolean; text: string } | null>(null);
    const base = capture && `/api/v1/captures/${capture.id}/rules`;
    const sequence = live.captures?.sequence;
    const look = () => {
        if (!base) return;
        ask<Answer>(base).then(setRules, (error: Error) => setRules(error.message));
    };
    useEffect(look, [base, sequence]);
    const lines = text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
    const failed = (error: Error) => setSaid({ bad: true, text: error.message });
    const done = (what: string) => (changed: Changed) => {
        const took = `in force after ${(changed.took_ns / 1e6).toFixed(2)} ms`;
        const ids = changed.changed.join(", ") || "none";
        setSaid({ bad: false, text: `${what} ${ids}, ${took}` });
        look();
    };
    if (!capture || !base) return <p class="verdict">No capture runs.</p>;
    const add = (event: Event) => {
        event.preventDefault();
        order<Changed>(base, { add: lines }).then((changed) => {
            setText("");
            done("Added")(changed);
        }, failed);
    };
    const remove = (rule: Rule) =>
        order<Changed>(base, { delete: [rule.id] }).then(done("Deleted"), failed);
    const undo = () => order<Changed>(`${base}/undo`, {}).then(done("Undone:"), failed);
    const tryOut = () =>
        order<Tried>("/api/v1/rules/test?last=10m", { rules: lines }).then(setSaid, failed);
    const pick = (event: Event) =>
        go("rules", { capture: (event.currentTarget as HTMLSelectElement).value }, true);
    const known = rules !== null && typeof rules !== "string" ? rules : null;
    return (
        <section class="panel">
            <div class="panel-head">
                <h2>Rules</h2>
                <label class="inline">
                    of
                    <select value={String(capture.id)} onChange={pick}>
                        {live.captures?.captures.map(({ id, status }) => (
                            <option key={id} value={String(id)}>
                                {status.source} · {id}
                            </option>
                        ))}
                    </select>
                </label>
                {mayChange && known && (
                    <button onClick={undo} disabled={known.undo === 0}>
                        Undo{known.undo > 0 ? ` (${known.undo})` : ""}
                    </button>
                )}
            </div>
            {typeof rules === "string" && (
                <p class="notice warn">
                    {rules}. Start it as <code>ringside capture -i eth1 --rules FILE</code>
                </p>
            )}
            {known && mayChange && (
                <form onSubmit={add}>
                    <label>
                        New rules, one a line
                        <textarea
                            rows={2}
                            value={text}
                            placeholder="src ip 192.0.2.7 => drop"
                            onInput={(event) => setText(event.currentTarget.value)}
                            spellcheck={false}
                        />
                    </label>
                    <div class="row">
                        <button type="button" onClick={tryOut} disabled={lines.length === 0}>
                            Dry run
                        </button>
                        <button class="main" disabled={lines.length === 0}>
                            Add
                        </button>
                        <span class="hint">
                            A dry run judges the last ten recorded minutes and changes nothing
                        </span>
                    </div>
                </form>
            )}
            {said && "rules" in said && <Trial tried={said} />}
            {said && "text" in said && (
                <p class={`notice ${said.bad ? "bad" : "good"}`} role="status">
                    {said.text}
                </p>
            )}
            {known && <List rules={known} remove={mayChange ? remove : null} />}
            {known?.more && <p class="hint">The first of {grouped(known.count)} rules.</p>}
        </section>
    );
}
