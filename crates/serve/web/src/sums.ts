// Flows added up by who sends to whom, for a diagram: the largest, and all others as one.

import type { Fact } from "./api";
import { number, text } from "./kinds";

/** Addresses of a side that stand alone. */
export const ENDS_MAX = 12;

/** Of flows whose packets no filter of addresses finds: they are in a tunnel. */
const TUNNEL = "tunnel";

/** Bytes from one end to another; an end without a name is all others. */
export interface Link {
    from: string;
    to: string;
    bytes: number;
    packets: number;
    /** What a filter says before the addresses, and "tunnel" where none sees them. */
    tags: Set<string>;
}

export interface Sums {
    /** By their bytes, the largest first; others last. */
    senders: string[];
    receivers: string[];
    links: Link[];
    bytes: number;
    /** How many addresses are among the others. */
    otherSenders: number;
    otherReceivers: number;
}

export const OTHERS = "";

function tagOf(flow: Fact): string {
    if (text(flow, "tunnel") !== null) return TUNNEL;
    const vlan = number(flow, "vlan");
    return vlan === null ? "" : `vlan ${vlan} and `;
}

/** What each address sent to each other one. A flow goes both ways. */
function pairs(flows: Fact[]): Map<string, Link> {
    const found = new Map<string, Link>();
    const add = (from: string, to: string, bytes: number, packets: number, tag: string) => {
        if (bytes === 0) return;
        const key = `${from} ${to}`;
        const link = found.get(key) ?? { from, to, bytes: 0, packets: 0, tags: new Set<string>() };
        link.bytes += bytes;
        link.packets += packets;
        link.tags.add(tag);
        found.set(key, link);
    };
    for (const flow of flows) {
        const [source, destination, tag] = [text(flow, "src"), text(flow, "dst"), tagOf(flow)];
        if (source === null || destination === null) continue;
        const of = (name: string) => number(flow, name) ?? 0;
        add(source, destination, of("bytes"), of("packets"), tag);
        add(destination, source, of("reverse_bytes"), of("reverse_packets"), tag);
    }
    return found;
}

/** Addresses by their bytes, the largest first. */
function ranked(links: Iterable<Link>, side: "from" | "to"): string[] {
    const sums = new Map<string, number>();
    for (const link of links) sums.set(link[side], (sums.get(link[side]) ?? 0) + link.bytes);
    return [...sums].sort((one, other) => other[1] - one[1]).map(([address]) => address);
}

export function sums(flows: Fact[]): Sums {
    const all = pairs(flows);
    const [froms, tos] = [ranked(all.values(), "from"), ranked(all.values(), "to")];
    // One alone is no others.
    const shown = (ends: string[]) =>
        ends.length <= ENDS_MAX + 1 ? ends : [...ends.slice(0, ENDS_MAX), OTHERS];
    const [senders, receivers] = [shown(froms), shown(tos)];
    const [isSender, isReceiver] = [new Set(senders), new Set(receivers)];
    const joined = new Map<string, Link>();
    let bytes = 0;
    for (const link of all.values()) {
        const from = isSender.has(link.from) ? link.from : OTHERS;
        const to = isReceiver.has(link.to) ? link.to : OTHERS;
        const key = `${from} ${to}`;
        const known = joined.get(key);
        bytes += link.bytes;
        if (!known) {
            joined.set(key, { ...link, from, to });
            continue;
        }
        known.bytes += link.bytes;
        known.packets += link.packets;
        known.tags = new Set([...known.tags, ...link.tags]);
    }
    const links = [...joined.values()].sort((one, other) => other.bytes - one.bytes);
    const others = (ends: string[], named: string[]) =>
        named.includes(OTHERS) ? ends.length - ENDS_MAX : 0;
    return {
        senders,
        receivers,
        links,
        bytes,
        otherSenders: others(froms, senders),
        otherReceivers: others(tos, receivers),
    };
}

/** A filter of the packets of a link; none if there is no such filter. */
export function filterOf({ from, to, tags }: Link): string | null {
    const [tag] = tags;
    if (from === OTHERS || to === OTHERS || tags.size !== 1 || tag === TUNNEL) return null;
    return `${tag}src host ${from} and dst host ${to}`;
}
