// The answer to a question of a screen.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "./api";

type State<T> = T | { error: string } | "working" | null;

/** The answer to a question, which is asked anew when it changes. */
export function useAnswer<T>(path: string, isAsked: boolean) {
    const [state, set] = useState<State<T>>(null);
    const asked = useRef<AbortController | null>(null);
    const again = () => {
        asked.current?.abort();
        const gone = new AbortController();
        asked.current = gone;
        set("working");
        ask<T>(path, { signal: gone.signal }).then(
            set,
            (error: Error) => gone.signal.aborted || set({ error: error.message }),
        );
    };
    useEffect(() => {
        set(null);
        if (isAsked) again();
        return () => asked.current?.abort();
    }, [path]);
    return { state, again };
}
