// Where the page is: the screen, and what was chosen there, are in the address behind #, so that a
// link shows what its sender saw. That part of an address is never sent to the service.

import { useEffect, useState } from "preact/hooks";

export const SCREENS = ["ring", "health", "rules", "packets"] as const;
export type Screen = (typeof SCREENS)[number];

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
