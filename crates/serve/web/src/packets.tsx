import { useEffect, useRef, useState } from "preact/hooks";
import { ask, withQuery, type Found, type Recording } from "./api";
import {
    NoRecordings,
    QuestionForm,
    commandOf,
    isQuestion,
    questionOf,
    useRecordings,
    written,
} from "./question";
import { bytes, counted, grouped, percent } from "./words";

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

interface Props {
    chosen: Record<string, string>;
    mayGet: boolean;
}

type Answer = Found | { error: string } | "working" | null;

/** What is recorded, found and downloaded. */
export function Packets({ chosen, mayGet }: Props) {
    const recordings = useRecordings();
    const [answer, setAnswer] = useState<Answer>(null);
    const search = useRef<AbortController | null>(null);
    const asked = questionOf(chosen);
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
        if (isQuestion(asked)) find();
        return () => search.current?.abort();
    }, Object.values(asked));
    const download = (event: Event) => {
        const { form } = event.currentTarget as HTMLButtonElement;
        const link = document.createElement("a");
        const question = questionOf(written(form as HTMLFormElement, chosen));
        link.href = withQuery("/api/v1/packets", question);
        link.download = "packets.pcapng";
        link.click();
    };
    if (recordings?.length === 0) return <NoRecordings />;
    return (
        <>
            <section class="panel">
                <h2>Find packets</h2>
                <QuestionForm
                    screen="packets"
                    chosen={chosen}
                    recordings={recordings ?? []}
                    again={find}
                >
                    <button class="main">Count</button>
                    {mayGet && (
                        <button type="button" onClick={download}>
                            Download pcapng
                        </button>
                    )}
                </QuestionForm>
                {answer === "working" && <p class="notice">Searching …</p>}
                {answer && answer !== "working" && "error" in answer && (
                    <p class="notice bad" role="alert">
                        {answer.error}
                    </p>
                )}
                {answer && answer !== "working" && "plan" in answer && <Plan found={answer} />}
                <p class="hint">
                    On a terminal: <code>{commandOf("ringside find", asked)}</code>
                </p>
            </section>
            {recordings && <Recordings recordings={recordings} />}
        </>
    );
}
