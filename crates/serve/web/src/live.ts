// The one stream of events of this page.

import { useEffect, useState } from "preact/hooks";
import type { Capture, Captures, Sample } from "./api";

/** As many as the service keeps. */
const SAMPLES_MAX = 300;

export interface Live {
    captures: Captures | null;
    samples: Sample[];
    state: "connecting" | "live" | "lost";
}

function sampleOf(captures: Captures): Sample {
    const of = captures.captures.map((capture) => ({
        id: capture.id,
        frames_per_second: capture.status.rates?.frames_per_second ?? null,
        bits_per_second: capture.status.rates?.bits_per_second ?? null,
        lost: capture.lost,
    }));
    return { sequence: captures.sequence, time_ms: captures.time_ms, captures: of };
}

/** In order, each once, and no more than are kept. */
function joined(samples: Sample[], more: Sample[]): Sample[] {
    const last = samples[samples.length - 1]?.sequence ?? 0;
    const fresh = more.filter((sample) => sample.sequence > last);
    return [...samples, ...fresh].slice(-SAMPLES_MAX);
}

export function useLive(signedIn: boolean): Live {
    const [live, set] = useState<Live>({ captures: null, samples: [], state: "connecting" });
    useEffect(() => {
        if (!signedIn) return;
        const events = new EventSource("/api/v1/events");
        events.addEventListener("history", (event) => {
            const history = JSON.parse((event as MessageEvent<string>).data) as Sample[];
            set((was) => ({ ...was, samples: joined(was.samples, history), state: "live" }));
        });
        events.addEventListener("captures", (event) => {
            const captures = JSON.parse((event as MessageEvent<string>).data) as Captures;
            const samples = (was: Live) => joined(was.samples, [sampleOf(captures)]);
            set((was) => ({ captures, samples: samples(was), state: "live" }));
        });
        events.onerror = () => set((was) => ({ ...was, state: "lost" }));
        return () => events.close();
    }, [signedIn]);
    return live;
}

/** The capture that was chosen, else the first. */
export function chosenCapture(live: Live, id: string | undefined): Capture | undefined {
    const all = live.captures?.captures ?? [];
    return all.find((capture) => String(capture.id) === id) ?? all[0];
}
