// Numbers and names as people read them.

const GROUPED = new Intl.NumberFormat("en");

export function grouped(number: number | null | undefined): string {
    return number === null || number === undefined ? "not counted" : GROUPED.format(number);
}

/** With a decimal prefix: 1.42 M. */
export function scaled(number: number, unit = ""): string {
    const prefixes = ["", "k", "M", "G", "T"];
    let at = 0;
    while (Math.abs(number) >= 1000 && at < prefixes.length - 1) {
        number /= 1000;
        at += 1;
    }
    const digits = at === 0 || Math.abs(number) >= 100 ? 0 : Math.abs(number) >= 10 ? 1 : 2;
    return `${number.toFixed(digits)} ${prefixes[at]}${unit}`.trim();
}

export function bytes(number: number): string {
    return scaled(number, "B");
}

export function duration(ms: number): string {
    const seconds = Math.floor(ms / 1000);
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
    if (hours >= 48) return `${Math.floor(hours / 24)} days`;
    const two = (part: number) => String(part).padStart(2, "0");
    return `${hours}:${two(minutes)}:${two(seconds % 60)}`;
}

/** A moment in nanoseconds since 1970, to the millisecond, which is what a number here can hold. */
export function moment(ns: number): string {
    return new Date(ns / 1e6).toISOString().replace("T", " ").replace("Z", "");
}

/** A span of time in nanoseconds. */
export function span(ns: number): string {
    if (ns < 1e6) return `${(ns / 1e3).toFixed(0)} µs`;
    if (ns < 1e9) return `${(ns / 1e6).toFixed(ns < 1e8 ? 1 : 0)} ms`;
    if (ns < 60e9) return `${(ns / 1e9).toFixed(2)} s`;
    return duration(ns / 1e6);
}

export function percent(part: number, whole: number): string {
    if (part === 0 || whole === 0) return "0 %";
    const share = (100 * part) / whole;
    return share < 0.01 ? "< 0.01 %" : `${share.toFixed(share < 1 ? 2 : 1)} %`;
}

export function counted(number: number, noun: string): string {
    return `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** Why frames are lost, and what helps. */
export const CAUSES: Record<string, { why: string; fix: string }> = {
    kernel_ring_full: {
        why: "The kernel's ring was full: the worker took frames too slowly.",
        fix: "More lanes or --threads, a narrower filter, or a CPU of its own (ringside doctor).",
    },
    interface_drop: {
        why: "The interface or its driver dropped them before they could be taken.",
        fix: "Larger rings of the card: ethtool -G.",
    },
    recorder_behind: {
        why: "The capture ring was full: the disk took less than the network brought.",
        fix: "More disks (-w several times), rules or caps that keep less, or a larger --ring-size.",
    },
    frame_too_large: {
        why: "Frames were larger than a block can hold.",
        fix: "Switch off GRO and LRO of the interface, or cut frames by -s.",
    },
    overtaken: {
        why: "A reader next to the recorder was too slow and was overtaken; the recording is whole.",
        fix: "A narrower filter for that reader.",
    },
    disk_full: { why: "The disk was full.", fix: "Limits of size or age for the recording." },
    write_failed: { why: "Writing failed.", fix: "The log of the capture names the error." },
    pipe_closed: { why: "The program behind the pipe ended.", fix: "Start it again." },
    pipe_stalled: { why: "The program behind the pipe did not read.", fix: "A faster reader." },
    limit_reached: { why: "The run reached its own limit.", fix: "As was asked for." },
    damaged: { why: "Records could not be read.", fix: "ringside repair." },
    worker_died: { why: "The worker process died.", fix: "The log of the capture says how." },
    fill_ring_empty: {
        why: "The kernel had no free memory to receive into: the worker was too slow.",
        fix: "More lanes or --threads.",
    },
};
