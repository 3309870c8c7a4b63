// Who sends to whom, as bands whose width is their bytes: a diagram of Sankey's kind. A table of
// the same numbers stands below it.

import { useState } from "preact/hooks";
import type { Fact } from "./api";
import { link as linkTo } from "./place";
import { questionOf } from "./question";
import { OTHERS, filterOf, sums, type Link, type Sums } from "./sums";
import { bytes, counted, grouped, percent } from "./words";
import "./sankey.css";

type Chosen = Record<string, string>;

/** Of the drawing, in its own units; it grows with its place. */
const WIDTH = 1000;
/** Room beside a bar for an address of as many characters as are shown, and numbers. */
const MARGIN = 290;
const NAME_MAX = 20;
const BAR = 12;
/** What all bytes together are high. */
const HEIGHT = 340;
/** A line of text: an end is given no less, however few bytes it has. */
const LINE = 19;
const GAP = 6;
/** Colours of the style sheet, for senders in turn. */
const COLOURS = 6;
/** Rows of the table. */
const ROWS_MAX = 30;

interface End {
    name: string;
    bytes: number;
    /** Of its bar. */
    y: number;
    height: number;
    /** Middle of the text. */
    middle: number;
    /** Where its next band begins. */
    next: number;
}

/** Ends of a side, one below the other. */
function stack(names: string[], total: number, bytesOf: (name: string) => number): Map<string, End> {
    let top = GAP;
    const ends = new Map<string, End>();
    for (const name of names) {
        const own = bytesOf(name);
        const height = Math.max(1, (own / total) * HEIGHT);
        const room = Math.max(LINE, height);
        const y = top + (room - height) / 2;
        ends.set(name, { name, bytes: own, y, height, middle: top + room / 2, next: y });
        top += room + GAP;
    }
    return ends;
}

interface Band {
    link: Link;
    path: string;
    width: number;
    /** A class of the style sheet. */
    colour: string;
}

interface Drawing {
    senders: End[];
    receivers: End[];
    bands: Band[];
    height: number;
}

function drawn({ senders, receivers, links, bytes: total }: Sums): Drawing {
    const of = (side: "from" | "to") => (name: string) =>
        links.reduce((sum, link) => sum + (link[side] === name ? link.bytes : 0), 0);
    const left = stack(senders, total, of("from"));
    const right = stack(receivers, total, of("to"));
    // In the order of the other side, so that bands of one end do not cross.
    const order = ({ from, to }: Link) =>
        receivers.indexOf(to) * senders.length + senders.indexOf(from);
    const bands = [...links]
        .sort((one, other) => order(one) - order(other))
        .flatMap((link) => {
            const [from, to] = [left.get(link.from), right.get(link.to)];
            if (!from || !to) return [];
            const width = (link.bytes / total) * HEIGHT;
            const [y0, y1] = [from.next + width / 2, to.next + width / 2];
            [from.next, to.next] = [from.next + width, to.next + width];
            const [x0, x1] = [MARGIN + BAR, WIDTH - MARGIN - BAR];
            const half = (x0 + x1) / 2;
            const path = `M${x0} ${y0}C${half} ${y0} ${half} ${y1} ${x1} ${y1}`;
            const isOthers = link.from === OTHERS;
            const colour = isOthers ? "plain" : `c${senders.indexOf(link.from) % COLOURS}`;
            return [{ link, path, width: Math.max(1, width), colour }];
        });
    const ends = [...left.values(), ...right.values()];
    const bottom = ({ middle, y, height }: End) => Math.max(middle + LINE / 2, y + height);
    const height = Math.max(...ends.map(bottom)) + GAP;
    return { senders: [...left.values()], receivers: [...right.values()], bands, height };
}

/** What is pointed at, or has the focus. */
type Lit = { side: "from" | "to"; name: string } | null;

function named(name: string, others: number): string {
    return name === OTHERS ? `${grouped(others)} others` : name;
}

/** An address of IPv6 may be longer than its place: the table and what is pointed at have it whole. */
function shortened(name: string): string {
    const half = NAME_MAX / 2;
    return name.length <= NAME_MAX ? name : `${name.slice(0, half)}…${name.slice(1 - half)}`;
}

interface EndsProps {
    ends: End[];
    side: "from" | "to";
    others: number;
    total: number;
    chosen: Chosen;
    light: (lit: Lit) => void;
}

/** The bars of a side. Each leads to the flows of its address alone. */
function Ends({ ends, side, others, total, chosen, light }: EndsProps) {
    const isLeft = side === "from";
    const { filter = "" } = chosen;
    return (
        <g>
            {ends.map(({ name, bytes: own, y, height, middle }, at) => {
                const known = named(name, others);
                const numbers = `${bytes(own)} · ${percent(own, total)}`;
                const lit = () => light({ side, name });
                const shown = (
                    <>
                        <rect
                            class={isLeft && name !== OTHERS ? `c${at % COLOURS}` : "plain"}
                            x={isLeft ? MARGIN : WIDTH - MARGIN - BAR}
                            y={y}
                            width={BAR}
                            height={height}
                        />
                        <text
                            x={isLeft ? MARGIN - 8 : WIDTH - MARGIN + 8}
                            y={middle}
                            text-anchor={isLeft ? "end" : "start"}
                            dominant-baseline="central"
                        >
                            {shortened(known)} · {numbers}
                        </text>
                        <title>
                            {known}: {numbers}
                        </title>
                    </>
                );
                const events = { onMouseEnter: lit, onMouseLeave: () => light(null) };
                if (name === OTHERS) return <g {...events}>{shown}</g>;
                const both = [filter && `(${filter})`, `host ${name}`].filter(Boolean);
                const to = linkTo("flows", { ...chosen, filter: both.join(" and ") });
                return (
                    <a
                        key={name}
                        href={to}
                        aria-label={`${isLeft ? "Sender" : "Receiver"} ${known}, ${numbers}: its flows alone`}
                        onFocus={lit}
                        onBlur={() => light(null)}
                        {...events}
                    >
                        {shown}
                    </a>
                );
            })}
        </g>
    );
}

function Table({ all, chosen }: { all: Sums; chosen: Chosen }) {
    const { links, bytes: total, otherSenders, otherReceivers } = all;
    const rest = links.slice(ROWS_MAX);
    const sum = (of: (link: Link) => number) => rest.reduce((sum, link) => sum + of(link), 0);
    return (
        <div class="wide" role="region" aria-label="Table: who sends to whom" tabIndex={0}>
            <table class="records">
                <thead>
                    <tr>
                        <th>Sender</th>
                        <th>Receiver</th>
                        <th class="number">Bytes</th>
                        <th class="number">Share</th>
                        <th class="number">Packets</th>
                        <th>
                            <span class="unseen">Packets of it</span>
                        </th>
                    </tr>
                </thead>
                <tbody>
                    {links.slice(0, ROWS_MAX).map((link) => {
                        const filter = filterOf(link);
                        const asked = { ...questionOf(chosen), filter: filter ?? "" };
                        return (
                            <tr key={`${link.from} ${link.to}`}>
                                <td>{named(link.from, otherSenders)}</td>
                                <td>{named(link.to, otherReceivers)}</td>
                                <td class="number">{grouped(link.bytes)}</td>
                                <td class="number">{percent(link.bytes, total)}</td>
                                <td class="number">{grouped(link.packets)}</td>
                                <td class="acts">
                                    {filter && <a href={linkTo("packets", asked)}>Packets</a>}
                                </td>
                            </tr>
                        );
                    })}
                    {rest.length > 0 && (
                        <tr class="total">
                            <td colSpan={2}>{grouped(rest.length)} more</td>
                            <td class="number">{grouped(sum((link) => link.bytes))}</td>
                            <td class="number">{percent(sum((link) => link.bytes), total)}</td>
                            <td class="number">{grouped(sum((link) => link.packets))}</td>
                            <td />
                        </tr>
                    )}
                </tbody>
            </table>
        </div>
    );
}

/** Addresses of a side, with those that stand for others. */
function countOf(ends: string[], others: number): number {
    return others === 0 ? ends.length : ends.length - 1 + others;
}

/** Flows as who sends to whom. */
export function Sankey({ records, chosen }: { records: Fact[]; chosen: Chosen }) {
    const [lit, light] = useState<Lit>(null);
    const all = sums(records);
    if (all.bytes === 0) return <p class="notice">No flow has bytes.</p>;
    const { senders, receivers, bands, height } = drawn(all);
    const dimmed = ({ link }: Band) => lit !== null && link[lit.side] !== lit.name;
    const shared = { total: all.bytes, chosen, light };
    return (
        <>
            <p>
                <b class="total-bytes">{grouped(all.bytes)}</b> bytes from{" "}
                {counted(countOf(all.senders, all.otherSenders), "sender")} (left) to{" "}
                {counted(countOf(all.receivers, all.otherReceivers), "receiver")} (right)
            </p>
            <svg
                class="sankey"
                viewBox={`0 0 ${WIDTH} ${height}`}
                role="group"
                aria-label="Bytes from senders to receivers; the table below has the same numbers"
            >
                {bands.map((band) => (
                    <path
                        key={`${band.link.from} ${band.link.to}`}
                        class={`band ${band.colour} ${dimmed(band) ? "dim" : ""}`}
                        d={band.path}
                        stroke-width={band.width}
                    >
                        <title>
                            {named(band.link.from, all.otherSenders)} →{" "}
                            {named(band.link.to, all.otherReceivers)}: {bytes(band.link.bytes)}
                        </title>
                    </path>
                ))}
                <Ends {...shared} ends={senders} side="from" others={all.otherSenders} />
                <Ends {...shared} ends={receivers} side="to" others={all.otherReceivers} />
            </svg>
            <Table all={all} chosen={chosen} />
        </>
    );
}
