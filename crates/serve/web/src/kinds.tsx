// Kinds of records: where they are asked for, their columns, and which packets they are of.

import type { ComponentChildren } from "preact";
import type { Fact } from "./api";
import type { Screen } from "./place";
import { bytes, grouped, moment, span } from "./words";

export type Value = string | number | null;

export interface Column {
    /** In the address, where it is what rows are sorted by. */
    key: string;
    name: string;
    /** What is sorted by, and shown unless `show` says otherwise. */
    value: (fact: Fact) => Value;
    show?: (fact: Fact) => string;
    /** Numbers stand to the right, and the largest come first. */
    number?: boolean;
    /** Long texts are cut off at the end; the whole is in the details. */
    cut?: boolean;
    bad?: (fact: Fact) => boolean;
}

export interface Kind {
    /** In the address, among those of a screen. */
    key: string;
    name: string;
    /** Below /api/v1. */
    path: string;
    /** What is asked in addition to the packets. */
    asks: Record<string, string>;
    /** The same on a terminal; none has it. */
    command: string | null;
    columns: Column[];
    /** A filter of the packets, and the times of the first and the last of them. */
    filter: (fact: Fact) => string;
    /** None if a record is of all times that were asked for. */
    time: ((fact: Fact) => [number | null, number | null]) | null;
    details?: (fact: Fact) => ComponentChildren;
    /** The Call-ID, where a record has messages that stand in a ladder. */
    callId?: (fact: Fact) => string | null;
    /** True if it can be shown as a diagram of who sends to whom. */
    hasDiagram?: boolean;
}

export function text(fact: Fact, name: string): string | null {
    const value = fact[name];
    return value === null || value === undefined ? null : String(value);
}

export function number(fact: Fact, name: string): number | null {
    const value = fact[name];
    return typeof value === "number" ? value : null;
}

export function objects(fact: Fact, name: string): Fact[] {
    return Array.isArray(fact[name]) ? (fact[name] as Fact[]) : [];
}

function sum(fact: Fact, ...names: string[]): number {
    return names.reduce((all, name) => all + (number(fact, name) ?? 0), 0);
}

/** An address with its port, as URLs have them. */
export function end(fact: Fact, address: string, port: string): string | null {
    const [host, at] = [text(fact, address), text(fact, port)];
    if (host === null || at === null) return host;
    return host.includes(":") ? `[${host}]:${at}` : `${host}:${at}`;
}

function plain(key: string, name: string, cut = false): Column {
    return { key, name, value: (fact) => text(fact, key), cut };
}

function ends(key: string, name: string, port: string): Column {
    return { key, name, value: (fact) => end(fact, key, port), cut: true };
}

function counted(
    key: string,
    name: string,
    show: (value: number) => string,
    value: (fact: Fact) => number | null = (fact) => number(fact, key),
): Column {
    const shown = (fact: Fact) => {
        const found = value(fact);
        return found === null ? "–" : show(found);
    };
    return { key, name, value, show: shown, number: true };
}

const BEGAN: Column = {
    ...counted("first_ns", "Time (UTC)", moment),
    number: false,
};

/** `tcp and host A and port 1 and host B and port 2`; of a tagged frame behind its tag. */
function between(protocol: string, fact: Fact, one: string[], other: string[]): string {
    const part = ([address, port]: string[]) => {
        const [host, at] = [text(fact, address ?? ""), text(fact, port ?? "")];
        return [host && `host ${host}`, at && `port ${at}`];
    };
    const parts = [protocol, ...part(one), ...part(other)].filter(Boolean).join(" and ");
    const vlan = number(fact, "vlan");
    return vlan === null ? parts : `vlan ${vlan} and ${parts}`;
}

const PROTOCOLS: Record<number, string> = {
    1: "icmp",
    2: "igmp",
    6: "tcp",
    17: "udp",
    58: "icmp6",
    132: "sctp",
};

function protocolOf(fact: Fact): string {
    const known = number(fact, "protocol");
    const ip = text(fact, "src")?.includes(":") ? "ip6" : "ip";
    return known === null ? "" : (PROTOCOLS[known] ?? `${ip} proto ${known}`);
}

const CLIENT = ["client", "client_port"];
const SERVER = ["server", "server_port"];

function ofClient(protocol: (fact: Fact) => string): (fact: Fact) => string {
    return (fact) => between(protocol(fact), fact, CLIENT, SERVER);
}

const FLOWS: Kind = {
    key: "flows",
    name: "Conversations",
    path: "records/flows",
    // A row for each, however long it went on.
    asks: { active: "2h" },
    command: "ringside flows --json --active 2h",
    columns: [
        BEGAN,
        ends("src", "Initiator", "src_port"),
        ends("dst", "Responder", "dst_port"),
        {
            key: "protocol",
            name: "Protocol",
            value: (fact) => {
                const of = PROTOCOLS[number(fact, "protocol") ?? -1] ?? text(fact, "protocol");
                return [of, text(fact, "application")].filter(Boolean).join(", ");
            },
        },
        counted("packets", "Packets", grouped, (fact) => sum(fact, "packets", "reverse_packets")),
        counted("bytes", "Bytes", bytes, (fact) => sum(fact, "bytes", "reverse_bytes")),
        counted("sent", "Sent", bytes, (fact) => number(fact, "bytes")),
        counted("reverse_bytes", "Answered", bytes),
        counted("duration", "Duration", span, (fact) => sum(fact, "last_ns") - sum(fact, "first_ns")),
        plain("end", "End"),
    ],
    // What lies in a tunnel no filter asks for: its time alone is known.
    filter: (fact) =>
        text(fact, "tunnel")
            ? ""
            : between(protocolOf(fact), fact, ["src", "src_port"], ["dst", "dst_port"]),
    time: (fact) => [number(fact, "first_ns"), number(fact, "last_ns")],
    hasDiagram: true,
};

const TALKERS: Kind = {
    key: "talkers",
    name: "Addresses",
    path: "talkers",
    asks: {},
    command: null,
    columns: [
        plain("address", "Address"),
        counted("bytes", "Bytes", bytes),
        counted("sent_bytes", "Sent", bytes),
        counted("received_bytes", "Received", bytes),
        counted("packets", "Packets", grouped),
        counted("sent_packets", "Sent packets", grouped),
        counted("received_packets", "Received packets", grouped),
        counted("flows", "Flows", grouped),
    ],
    filter: (fact) => `host ${text(fact, "address")}`,
    time: null,
};

const HTTP: Kind = {
    key: "http",
    name: "HTTP",
    path: "records/http",
    asks: {},
    command: "ringside http --json",
    columns: [
        BEGAN,
        plain("client", "Client", true),
        ends("server", "Server", "server_port"),
        plain("method", "Method"),
        {
            key: "target",
            name: "Host and target",
            value: (fact) => `${text(fact, "host") ?? ""}${text(fact, "target") ?? ""}`,
            cut: true,
        },
        {
            ...counted("status", "Status", String),
            bad: (fact) => (number(fact, "status") ?? 0) >= 400,
        },
        counted("response_body_bytes", "Body", bytes),
        counted("first_byte_ns", "First byte", span),
        plain("ending", "Ending"),
    ],
    filter: ofClient(() => "tcp"),
    time: (fact) => [number(fact, "first_ns"), number(fact, "last_ns")],
};

const DNS: Kind = {
    key: "dns",
    name: "DNS",
    path: "records/dns",
    asks: {},
    command: "ringside dns --json",
    columns: [
        BEGAN,
        plain("client", "Client", true),
        plain("server", "Server", true),
        plain("name", "Name", true),
        plain("type", "Type"),
        {
            key: "answers",
            name: "Answer",
            value: (fact) => objects(fact, "answers").map((one) => text(one, "data")).join(", "),
            cut: true,
        },
        {
            key: "rcode",
            name: "Result",
            value: (fact) => text(fact, "rcode") ?? text(fact, "ending"),
            bad: (fact) => {
                const result = text(fact, "rcode") ?? text(fact, "ending") ?? "";
                return !["NOERROR", "multicast"].includes(result);
            },
        },
        counted("latency_ns", "Latency", span),
    ],
    filter: ofClient((fact) => text(fact, "transport") ?? "udp"),
    time: (fact) => [number(fact, "first_ns"), number(fact, "last_ns")],
};

const TLS: Kind = {
    key: "tls",
    name: "TLS",
    path: "records/tls",
    asks: {},
    command: "ringside tls --json",
    columns: [
        BEGAN,
        plain("client", "Client", true),
        ends("server", "Server", "server_port"),
        plain("server_name", "Name", true),
        plain("version", "Version"),
        plain("alpn", "ALPN"),
        counted("server_hello_ns", "Answer after", span),
        { ...plain("ending", "Ending"), bad: (fact) => text(fact, "ending") === "alert" },
    ],
    filter: ofClient((fact) => (text(fact, "transport") === "quic" ? "udp" : "tcp")),
    time: (fact) => [number(fact, "first_ns"), number(fact, "end_ns")],
};

/** Streams that stand in the filter of a call: two parties, sound and pictures, and their RTCP. */
const STREAMS_MAX = 8;

export function quality(stream: Fact, name: string): number | null {
    const found = stream.quality;
    return found && typeof found === "object" ? number(found as Fact, name) : null;
}

function packetsOfCall(fact: Fact): string {
    const media = objects(fact, "streams")
        .slice(0, STREAMS_MAX)
        .map((stream) =>
            between(
                "udp",
                { ...stream, vlan: null },
                ["source", "source_port"],
                ["destination", "destination_port"],
            ),
        );
    const caller = ["caller_address", "caller_port"];
    const signalling = between(
        text(fact, "transport") ?? "udp",
        { ...fact, vlan: null },
        caller,
        ["callee_address", "callee_port"],
    );
    const all = [signalling, ...media].map((one) => `(${one})`).join(" or ");
    const vlan = number(fact, "vlan");
    return vlan === null ? all : `vlan ${vlan} and (${all})`;
}

function worst(fact: Fact, value: (stream: Fact) => number | null, of: "min" | "max"): number | null {
    const values = objects(fact, "streams").map(value).filter((one) => one !== null);
    return values.length === 0 ? null : Math[of](...values);
}

function Streams({ fact }: { fact: Fact }) {
    const streams = objects(fact, "streams");
    if (streams.length === 0) return null;
    const or = (value: number | null, show: (value: number) => string) =>
        value === null ? "–" : show(value);
    return (
        <table>
            <thead>
                <tr>
                    <th>From</th>
                    <th>To</th>
                    <th>Codec</th>
                    <th class="number">Packets</th>
                    <th class="number">Lost</th>
                    <th class="number">Jitter</th>
                    <th class="number">R</th>
                    <th class="number">MOS</th>
                </tr>
            </thead>
            <tbody>
                {streams.map((stream) => (
                    <tr key={text(stream, "ssrc")}>
                        <td>{end(stream, "source", "source_port")}</td>
                        <td>{end(stream, "destination", "destination_port")}</td>
                        <td>{text(stream, "codec") ?? "–"}</td>
                        <td class="number">{grouped(number(stream, "packets"))}</td>
                        <td class="number">{grouped(number(stream, "lost"))}</td>
                        <td class="number">{or(number(stream, "jitter_ns"), span)}</td>
                        <td class="number">{or(quality(stream, "r"), String)}</td>
                        <td class="number">{or(quality(stream, "mos_lq"), String)}</td>
                    </tr>
                ))}
            </tbody>
        </table>
    );
}

const CALLS: Kind = {
    key: "calls",
    name: "Calls",
    path: "records/calls",
    asks: {},
    command: "ringside calls --json",
    columns: [
        BEGAN,
        {
            key: "caller",
            name: "Caller",
            value: (fact) => text(fact, "caller") ?? end(fact, "caller_address", "caller_port"),
            cut: true,
        },
        {
            key: "callee",
            name: "Callee",
            value: (fact) => text(fact, "callee") ?? end(fact, "callee_address", "callee_port"),
            cut: true,
        },
        counted("status", "Status", String),
        plain("ending", "Ending"),
        counted("post_dial_delay_ns", "Rang after", span),
        counted("talk_ns", "Talked", span),
        counted("streams", "Streams", grouped, (fact) => objects(fact, "streams").length),
        counted("lost", "Lost", grouped, (fact) =>
            objects(fact, "streams").reduce((all, one) => all + (number(one, "lost") ?? 0), 0),
        ),
        {
            ...counted("mos", "MOS", String, (fact) =>
                worst(fact, (stream) => quality(stream, "mos_lq"), "min"),
            ),
            bad: (fact) => (worst(fact, (stream) => quality(stream, "mos_lq"), "min") ?? 5) < 3.1,
        },
    ],
    filter: packetsOfCall,
    time: (fact) => [
        number(fact, "first_ns"),
        Math.max(
            sum(fact, "ended_ns"),
            worst(fact, (stream) => number(stream, "last_ns"), "max") ?? 0,
        ),
    ],
    details: (fact) => <Streams fact={fact} />,
    callId: (fact) => text(fact, "call_id"),
};

/** The kinds of a screen. */
export const KINDS: Partial<Record<Screen, Kind[]>> = {
    flows: [FLOWS, TALKERS],
    http: [HTTP],
    names: [DNS],
    tls: [TLS],
    calls: [CALLS],
};

/** What is chosen on the screen of packets to see those of a record of these that were asked for. */
export function packetsOf(
    kind: Kind,
    fact: Fact,
    asked: Record<string, string>,
): Record<string, string> {
    if (kind.time === null) {
        const both = [asked.filter && `(${asked.filter})`, kind.filter(fact)];
        return { ...asked, filter: both.filter(Boolean).join(" and ") };
    }
    const { recording = "" } = asked;
    const [first, last] = kind.time(fact);
    const iso = (ms: number) => new Date(ms).toISOString();
    // A number here holds a time to some hundred nanoseconds; the end is not included.
    const from: Record<string, string> = first ? { from: iso(Math.floor(first / 1e6)) } : {};
    const to: Record<string, string> = last ? { to: iso(Math.floor(last / 1e6) + 2) } : {};
    return { filter: kind.filter(fact), ...from, ...to, recording };
}
