import { useMemo, useState } from "preact/hooks";
import type { Capture, CaptureSample, Sample } from "./api";
import { Chart } from "./chart";
import { chosenCapture, type Live } from "./live";
import { go, link } from "./place";
import { CAUSES, bytes, duration, grouped, percent, scaled } from "./words";

/** How full the fullest lane's part of the ring is, from 0 to 1. */
function fill(capture: Capture): number | null {
    const ring = capture.status.ring;
    if (!ring) return null;
    return Math.max(0, ...ring.held_bytes) / Math.max(1, ring.lane_bytes);
}

function isoTime(seconds: number): string {
    return new Date(Math.round(seconds * 1000)).toISOString();
}

/** The one sentence for which somebody opens this page. */
function Verdict({ live, capture }: { live: Live; capture: Capture | undefined }) {
    if (!live.captures) return <p class="verdict">Asking the captures …</p>;
    if (!capture) {
        return (
            <div class="verdict">
                <strong>No capture runs.</strong>
                <p>
                    Start one, as <code>sudo ringside capture -i eth1 -w /data/eth1</code>
                </p>
            </div>
        );
    }
    const { ledger, source } = capture.status;
    const all = ledger.received ?? ledger.taken;
    if (capture.lost === 0) {
        return (
            <div class="verdict good">
                <strong>Capturing. Nothing is lost.</strong>
                <p>
                    {source} · {grouped(ledger.taken)} frames taken, every one accounted for
                </p>
            </div>
        );
    }
    const first = live.samples[0]?.captures.find((sample) => sample.id === capture.id);
    const recent = capture.lost - (first?.lost ?? 0);
    return (
        <div class="verdict bad" role="alert">
            <strong>
                {grouped(capture.lost)} frames lost, {percent(capture.lost, all)} of all.
            </strong>
            <p>
                {source} · {recent > 0 ? `${grouped(recent)} in the last minutes` : "none lately"}
            </p>
        </div>
    );
}

function Tile({ name, value, note }: { name: string; value: string; note?: string | undefined }) {
    return (
        <div class="tile">
            <dt>{name}</dt>
            <dd>
                {value}
                {note && <small>{note}</small>}
            </dd>
        </div>
    );
}

function Tiles({ capture }: { capture: Capture }) {
    const { rates, ledger, ring, running_ms, lanes, readers } = capture.status;
    const part = fill(capture);
    const { output } = capture.status;
    return (
        <dl class="tiles">
            <Tile name="Frames/s" value={rates ? scaled(rates.frames_per_second) : "–"} />
            <Tile name="Bit/s" value={rates ? scaled(rates.bits_per_second) : "–"} />
            <Tile
                name="Taken"
                value={scaled(ledger.taken)}
                note={`${grouped(ledger.taken)} frames`}
            />
            <div class={`tile ${capture.lost > 0 ? "bad" : ""}`}>
                <dt>Lost</dt>
                <dd>
                    {scaled(capture.lost)}
                    <small>
                        {percent(capture.lost, ledger.received ?? ledger.taken)} of received
                    </small>
                </dd>
            </div>
            <div class={`tile ${part !== null && part > 0.8 ? "warn" : ""}`}>
                <dt>Ring</dt>
                <dd>
                    {part === null ? "–" : `${(100 * part).toFixed(0)} %`}
                    {ring && <small>{`of ${lanes} × ${bytes(ring.lane_bytes)}`}</small>}
                    {ring && part !== null && (
                        <meter
                            min={0}
                            max={1}
                            high={0.8}
                            value={part}
                            aria-label="Fill of the ring"
                        />
                    )}
                </dd>
            </div>
            <Tile
                name="Running"
                value={duration(running_ms)}
                note={
                    output.paths.length > 0
                        ? `to ${output.paths.join(", ")}`
                        : readers
                          ? `${readers} attached`
                          : output.kind
                }
            />
        </dl>
    );
}

/** Losses between samples. */
function lossesOf(all: (CaptureSample | undefined)[]): (number | null)[] {
    return all.map((sample, at) => {
        const before = all[at - 1];
        return sample && before ? Math.max(0, sample.lost - before.lost) : null;
    });
}

function Charts({ samples, capture }: { samples: Sample[]; capture: Capture }) {
    const [mark, setMark] = useState<[number, number] | null>(null);
    const charts = useMemo(() => {
        const own = samples.map((one) => one.captures.find((found) => found.id === capture.id));
        return {
            times: samples.map((sample) => sample.time_ms / 1000),
            bits: own.map((sample) => sample?.bits_per_second ?? null),
            frames: own.map((sample) => sample?.frames_per_second ?? null),
            losses: lossesOf(own),
        };
    }, [samples, capture.id]);
    const { times } = charts;
    const marked = (from: number, to: number) => setMark([from, to]);
    const span = mark && { from: isoTime(mark[0]), to: isoTime(mark[1]) };
    return (
        <section class="panel">
            <div class="panel-head">
                <h2>Last minutes</h2>
                {span ? (
                    <span class="row">
                        <a class="button" href={link("flows", { by: "talkers", ...span })}>
                            Who talked in this time
                        </a>
                        <a class="button" href={link("packets", span)}>
                            Find the packets of this time
                        </a>
                    </span>
                ) : (
                    <span class="hint">Drag over a chart to choose a time</span>
                )}
            </div>
            <h3>
                Bit/s <b>{scaled(charts.bits.at(-1) ?? 0)}</b>
            </h3>
            <Chart
                label="Bits a second over the last minutes"
                times={times}
                height={150}
                show={(value) => scaled(value)}
                marked={marked}
                series={[{ label: "bit/s", colour: "accent", values: charts.bits }]}
            />
            <h3>
                Frames/s <b>{scaled(charts.frames.at(-1) ?? 0)}</b>
            </h3>
            <Chart
                label="Frames a second over the last minutes"
                times={times}
                height={120}
                show={(value) => scaled(value)}
                marked={marked}
                series={[{ label: "frames/s", colour: "second", values: charts.frames }]}
            />
            <h3>
                Lost/s <b class={(charts.losses.at(-1) ?? 0) > 0 ? "bad-text" : ""}>
                    {scaled(charts.losses.at(-1) ?? 0)}
                </b>
            </h3>
            <Chart
                label="Frames lost a second over the last minutes"
                times={times}
                height={92}
                show={(value) => scaled(value)}
                series={[{ label: "lost/s", colour: "bad", bars: true, values: charts.losses }]}
            />
        </section>
    );
}

function Losses({ capture }: { capture: Capture }) {
    const causes = Object.entries(capture.lost_by_cause).sort((a, b) => b[1] - a[1]);
    if (causes.length === 0) return null;
    return (
        <section class="panel bad-edge">
            <h2>Lost, by cause</h2>
            <table>
                <thead>
                    <tr>
                        <th class="number">Frames</th>
                        <th>Cause</th>
                        <th>What helps</th>
                    </tr>
                </thead>
                <tbody>
                    {causes.map(([cause, frames]) => (
                        <tr key={cause}>
                            <td class="number bad-text">{grouped(frames)}</td>
                            <td>
                                <code>{cause}</code>
                                <div>{CAUSES[cause]?.why}</div>
                            </td>
                            <td>{CAUSES[cause]?.fix}</td>
                        </tr>
                    ))}
                </tbody>
            </table>
        </section>
    );
}

function Table({ captures, chosen }: { captures: Capture[]; chosen: number }) {
    return (
        <section class="panel">
            <h2>Captures</h2>
            <table>
                <thead>
                    <tr>
                        <th>From</th>
                        <th class="number">Process</th>
                        <th class="number">Frames/s</th>
                        <th class="number">Bit/s</th>
                        <th class="number">Taken</th>
                        <th class="number">Lost</th>
                        <th class="number">Ring</th>
                    </tr>
                </thead>
                <tbody>
                    {captures.map((capture) => {
                        const { rates, ledger, source } = capture.status;
                        const part = fill(capture);
                        return (
                            <tr key={capture.id} class={capture.id === chosen ? "chosen" : ""}>
                                <td>
                                    <a href={link("ring", { capture: String(capture.id) })}>
                                        {source}
                                    </a>
                                </td>
                                <td class="number">{capture.id}</td>
                                <td class="number">
                                    {rates ? scaled(rates.frames_per_second) : "–"}
                                </td>
                                <td class="number">
                                    {rates ? scaled(rates.bits_per_second) : "–"}
                                </td>
                                <td class="number">{grouped(ledger.taken)}</td>
                                <td class={`number ${capture.lost > 0 ? "bad-text" : ""}`}>
                                    {grouped(capture.lost)}
                                </td>
                                <td class="number">
                                    {part === null ? "–" : `${(100 * part).toFixed(0)} %`}
                                </td>
                            </tr>
                        );
                    })}
                </tbody>
            </table>
        </section>
    );
}

/** Is it capturing, is anything lost, and why. */
export function Ring({ live, chosen }: { live: Live; chosen: Record<string, string> }) {
    const capture = chosenCapture(live, chosen.capture);
    const all = live.captures?.captures ?? [];
    const find = (event: Event) => {
        event.preventDefault();
        const form = event.currentTarget as HTMLFormElement;
        const filter = String(new FormData(form).get("filter") ?? "");
        go("packets", { filter, last: "10m" });
    };
    return (
        <>
            <div class="top">
                <Verdict live={live} capture={capture} />
                <form class="find" role="search" onSubmit={find}>
                    <label>
                        Find packets
                        <input name="filter" placeholder="host 192.0.2.7 and tcp port 443" />
                    </label>
                    <button class="main">Find</button>
                </form>
            </div>
            {live.captures?.unreachable.map((text) => (
                <p class="notice warn" key={text}>
                    {text}
                </p>
            ))}
            {capture && <Tiles capture={capture} />}
            {capture && <Losses capture={capture} />}
            {capture && <Charts key={capture.id} samples={live.samples} capture={capture} />}
            {capture && all.length > 0 && <Table captures={all} chosen={capture.id} />}
        </>
    );
}
