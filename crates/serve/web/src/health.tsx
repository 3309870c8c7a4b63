import { useEffect, useState } from "preact/hooks";
import { ask, type Health as Answer, type Stage } from "./api";
import type { Live } from "./live";
import { CAUSES, grouped } from "./words";

const KINDS = { interface: "Interface", reader: "Reader of the ring" };
const ASIDE: Record<string, string> = {
    passed: "left to the host",
    filtered: "not wanted by the filter",
    by_rule: "dropped by a rule",
    outside_trigger: "not near a hit of the trigger",
    source_limit: "over the limit of their source",
};

function Term({ sign, name, number, bad, title }: {
    sign: string;
    name: string;
    number: number | null;
    bad?: boolean;
    title?: string | undefined;
}) {
    return (
        <tr class={bad ? "bad-text" : ""} title={title}>
            <td class="sign">{sign}</td>
            <td>{name}</td>
            <td class="number">{grouped(number)}</td>
        </tr>
    );
}

function StageBox({ stage }: { stage: Stage }) {
    const lost = Object.entries(stage.lost);
    const aside = Object.entries(stage.set_aside).filter(([, frames]) => frames !== 0);
    const state = lost.some(([, frames]) => frames > 0) ? "bad" : "good";
    return (
        <article class={`stage ${state}`}>
            <h3>
                <small>{KINDS[stage.kind]}</small>
                {stage.name}
            </h3>
            <table>
                <tbody>
                    <Term sign="" name="in" number={stage.input} />
                    <Term sign="=" name="out" number={stage.output} />
                    {aside.map(([name, frames]) => (
                        <Term key={name} sign="+" name={ASIDE[name] ?? name} number={frames} />
                    ))}
                    {lost.map(([cause, frames]) => (
                        <Term
                            key={cause}
                            sign="+"
                            name={`lost: ${cause}`}
                            number={frames}
                            bad
                            title={CAUSES[cause]?.why}
                        />
                    ))}
                    <Term sign="+" name="under way" number={stage.under_way} />
                    {stage.difference !== null && stage.difference !== 0 && (
                        <Term
                            sign="+"
                            name="between two readings"
                            number={stage.difference}
                            title="Counters are read one after the other while frames come in"
                        />
                    )}
                </tbody>
            </table>
            <p class="state">{state === "good" ? "nothing lost" : "frames lost"}</p>
        </article>
    );
}

function Pipeline({ source, stages }: { source: string; stages: Stage[] }) {
    const [interfaces, readers] = (["interface", "reader"] as const).map((kind) =>
        stages.filter((stage) => stage.kind === kind),
    );
    return (
        <section class="panel">
            <h2>{source}</h2>
            <div class="pipeline">
                <div class="column">
                    {interfaces?.map((stage) => <StageBox key={stage.name} stage={stage} />)}
                </div>
                <div class="arrow" aria-hidden="true">
                    <span>ring</span>
                </div>
                <div class="column">
                    {readers?.map((stage) => <StageBox key={stage.name} stage={stage} />)}
                    {readers?.length === 0 && <p class="hint">Nothing reads the ring.</p>}
                </div>
            </div>
        </section>
    );
}

/** From the interface to the disk: what goes in comes out, or is named. */
export function Health({ live }: { live: Live }) {
    const [health, set] = useState<Answer | null>(null);
    const sequence = live.captures?.sequence;
    useEffect(() => {
        const gone = new AbortController();
        ask<Answer>("/api/v1/health", { signal: gone.signal }).then(set, () => undefined);
        return () => gone.abort();
    }, [sequence]);
    if (!health) return <p class="verdict">Asking the captures …</p>;
    return (
        <>
            <div class={`verdict ${health.ok ? "good" : "bad"}`}>
                <strong>
                    {health.ok ? "What goes in comes out." : "Not all is as it should be."}
                </strong>
                {health.ok ? (
                    <p>in = out + set aside + lost + under way, for each stage below</p>
                ) : (
                    <ul>
                        {health.problems.map((problem) => (
                            <li key={problem}>{problem}</li>
                        ))}
                    </ul>
                )}
            </div>
            {health.captures.map(({ id, source, stages }) => (
                <Pipeline key={id} source={`${source} · process ${id}`} stages={stages} />
            ))}
        </>
    );
}
