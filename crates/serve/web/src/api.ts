// What the service answers (/api/v1/openapi.json), and how it is asked.

export interface Lane {
    interface: string;
    queue: number;
}

export interface Ledger {
    received: number | null;
    taken: number;
    passed: number;
    filtered: number | null;
    dropped: Record<string, number>;
    in_flight: number | null;
    consumers: { name: string; delivered: number; late: number; missed: Record<string, number> }[];
    lanes: Lane[];
}

export interface Status {
    pid: number;
    program: string;
    started: string;
    running_ms: number;
    source: string;
    interfaces: string[];
    lanes: number;
    output: { kind: string; paths: string[] };
    rates: { frames_per_second: number; bits_per_second: number } | null;
    ring: { lane_bytes: number; held_bytes: number[] } | null;
    readers: number | null;
    ledger: Ledger;
}

export interface Capture {
    id: number;
    socket: string;
    lost: number;
    lost_by_cause: Record<string, number>;
    status: Status;
}

export interface Captures {
    sequence: number;
    time_ms: number;
    captures: Capture[];
    unreachable: string[];
}

export interface CaptureSample {
    id: number;
    frames_per_second: number | null;
    bits_per_second: number | null;
    lost: number;
}

export interface Sample {
    sequence: number;
    time_ms: number;
    captures: CaptureSample[];
}

export interface Stage {
    kind: "interface" | "reader";
    name: string;
    input: number | null;
    output: number;
    set_aside: Record<string, number | null>;
    lost: Record<string, number>;
    under_way: number | null;
    difference: number | null;
}

export interface Health {
    ok: boolean;
    problems: string[];
    captures: { id: number; source: string; stages: Stage[] }[];
}

export interface Rule {
    id: number;
    frames: number;
    bytes: number;
    place: string;
    text: string;
}

export interface Rules {
    rules: Rule[];
    more: boolean;
    default: { verdict: string; frames: number; bytes: number } | null;
    count: number;
    undo: number;
}

export interface Changed {
    count: number;
    changed: number[];
    took_ns: number;
    undo: number;
}

export interface Tried {
    rules: { id: number; text: string; frames: number; bytes: number }[];
    undecided: number;
    complete: boolean;
    notices: string[];
}

export interface Recording {
    name: string;
    count: number;
    bytes: number;
    files: { name: string; bytes: number; written_ms: number }[];
    error: string | null;
}

export interface Found {
    packets: number;
    end: "complete" | "incomplete" | "stopped";
    plan: {
        files: { total: number; passed: number; without_index: number };
        blocks: { total: number; outside: number; pruned: number; read: number };
        bytes: { total: number; read: number; read_of_indexes: number };
    };
    lost_while_recorded: { lane: number; from: string; to: string; lost: Record<string, number> }[];
    notices: string[];
}

/** A record, as `--json` of its command has it. */
export type Fact = Record<string, unknown>;

export interface Records {
    records: Fact[];
    incomplete: { cause: string; text: string }[];
    search: Found;
}

/** A request has a method, a response a status. */
export interface SipMessage {
    time_ns: number;
    since_ns: number;
    /** Indices of hosts. */
    from: number;
    to: number;
    method: string | null;
    status: number | null;
    cseq: number;
    cseq_method: string;
    sdp: boolean;
}

export interface CallLadder {
    hosts: { address: string; port: number }[];
    messages: SipMessage[];
    left_out: number;
    calls: Fact[];
    incomplete: { cause: string; text: string }[];
    search: Found;
}

export interface Who {
    name: string;
    scopes: string[];
}

/** An answer that is an error; `status` is 0 if the service could not be reached. */
export class Failure extends Error {
    constructor(readonly status: number, text: string) {
        super(text);
    }
}

/** Times that a service is asked again that is busy: what was left a moment ago still ends. */
const AGAIN_MAX = 3;

async function answered(path: string, request: RequestInit): Promise<Response> {
    for (let again = 0; ; again += 1) {
        const response = await fetch(path, request);
        if (response.status !== 503 || again === AGAIN_MAX || request.method) return response;
        const seconds = Number(response.headers.get("retry-after") ?? 1);
        await new Promise((done) => setTimeout(done, 1000 * seconds));
    }
}

export async function ask<T>(path: string, request: RequestInit = {}): Promise<T> {
    let response: Response;
    try {
        response = await answered(path, request);
    } catch (error) {
        if (request.signal?.aborted) throw error;
        throw new Failure(0, "the service cannot be reached");
    }
    const text = await response.text();
    if (response.ok) return (text === "" ? undefined : JSON.parse(text)) as T;
    let message = text;
    try {
        message = (JSON.parse(text) as { error: string }).error;
    } catch {
        // Not one of its own answers: shown as it is.
    }
    throw new Failure(response.status, message || response.statusText);
}

export function order<T>(path: string, body: unknown): Promise<T> {
    const headers = { "content-type": "application/json" };
    return ask(path, { method: "POST", headers, body: JSON.stringify(body) });
}

/** A path with those parameters that say something. */
export function withQuery(path: string, parameters: Record<string, string>): string {
    const said = Object.entries(parameters).filter(([, value]) => value !== "");
    return said.length === 0 ? path : `${path}?${new URLSearchParams(said)}`;
}
