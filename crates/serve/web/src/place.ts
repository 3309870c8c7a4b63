// Where the page is: the screen, and what was chosen there, are in the address behind #, so that a
// link shows what its sender saw. That part of an address is never sent to the service.

import { useEffect, useState } from "preact/hooks";

export const SCREENS = [
    "ring",
    "health",
    "rules",
    "packets",
    "flows",
    "http",
    "names",
    "tls",
    "calls",
    "sql",
] as const;
export type Screen = (typeof SCREENS)[number];

/** Screens of recorded packets, which share a question. */
const OF_PACKETS: readonly Screen[] = SCREENS.slice(
    SCREENS.indexOf("packets"),
    SCREENS.indexOf("sql"),
);
/** What of a place stays on the way to any other screen, and to one of those. */
const STAYS = ["capture"];
const QUESTION = ["filter", "last", "from", "to", "span", "recording"];

export interface Place {
    screen: Screen;
    chosen: Record<string, string>;
}

export function place(): Place {
    const [name = "", query = ""] = location.hash.replace(/^#/, "").split("?", 2);
    const screen = SCREENS.find((known) => known === name) ?? "ring";
    return { screen, chosen: Object.fromEntries(new URLSearchParams(query)) };
}

export function link(screen: Screen, chosen: Record<string, string> = {}): string {
    const said = Object.entries(chosen).filter(([, value]) => value !== "");
    return `#${screen}${said.length > 0 ? `?${new URLSearchParams(said)}` : ""}`;
}

/** What was chosen, as far as it means something on another screen. */
export function kept(target: Screen, { screen, chosen }: Place): Record<string, string> {
    const isOfPackets = OF_PACKETS.includes(target);
    const names = isOfPackets ? [...STAYS, ...QUESTION] : STAYS;
    const stays = Object.fromEntries(
        names.flatMap((name) => (chosen[name] ? [[name, chosen[name]]] : [])),
    );
    // All that was ever recorded is a question that should be meant.
    const isFirst = isOfPackets && target !== "packets" && !OF_PACKETS.includes(screen);
    return isFirst ? { last: "10m", ...stays } : stays;
}

/** Goes there; `replace` leaves no step for the back button. */
export function go(screen: Screen, chosen: Record<string, string>, replace = false): void {
    const target = link(screen, chosen);
    if (!replace) {
        location.hash = target;
        return;
    }
    history.replaceState(null, "", target);
    dispatchEvent(new HashChangeEvent("hashchange"));
}

export function usePlace(): Place {
    const [here, set] = useState(place);
    useEffect(() => {
        const moved = () => set(place());
        addEventListener("hashchange", moved);
        return () => removeEventListener("hashchange", moved);
    }, []);
    return here;
}
