import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Failure, ask, type Who } from "./api";
import { Health } from "./health";
import { useLive, type Live } from "./live";
import { Packets } from "./packets";
import { SCREENS, go, kept, link, place, usePlace, type Screen } from "./place";
import { KINDS } from "./kinds";
import { Records } from "./records";
import { Ring } from "./ring";
import { Rules } from "./rules";
import { SignIn } from "./signin";
import { Sql } from "./sql";
import "./style.css";

const NAMES: Record<Screen, string> = {
    ring: "Ring",
    health: "Health",
    rules: "Rules",
    packets: "Packets",
    flows: "Flows",
    http: "HTTP",
    names: "Names",
    tls: "TLS",
    calls: "Calls",
    sql: "SQL",
};
const THEMES = ["auto", "light", "dark"] as const;

function useTheme() {
    const [theme, set] = useState(localStorage.getItem("theme") ?? "auto");
    useEffect(() => {
        localStorage.setItem("theme", theme);
        document.documentElement.dataset.theme = theme;
        dispatchEvent(new Event("theme"));
    }, [theme]);
    const next = THEMES[(THEMES.indexOf(theme as "auto") + 1) % THEMES.length] ?? "auto";
    return { theme, turn: () => set(next) };
}

/** 1 to 9 and 0 are the screens, unless something is being typed. */
function useKeys() {
    useEffect(() => {
        const pressed = (event: KeyboardEvent) => {
            const target = event.target as HTMLElement;
            const typing = ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
            // The tenth is 0, as on the keyboard.
            const screen = /^\d$/.test(event.key) && SCREENS[(Number(event.key) + 9) % 10];
            if (typing || event.ctrlKey || event.metaKey || event.altKey || !screen) return;
            go(screen, kept(screen, place()));
        };
        addEventListener("keydown", pressed);
        return () => removeEventListener("keydown", pressed);
    }, []);
}

function Connection({ state }: { state: Live["state"] }) {
    const words = { connecting: "connecting", live: "live", lost: "no connection" };
    return (
        <span class={`connection ${state}`} role="status">
            <i aria-hidden="true" />
            {words[state]}
        </span>
    );
}

function App() {
    const here = usePlace();
    const { screen, chosen } = here;
    const { theme, turn } = useTheme();
    const [who, setWho] = useState<Who | Failure | null>(null);
    const signedIn = who !== null && !(who instanceof Failure);
    const live = useLive(signedIn);
    useKeys();
    const look = () => {
        ask<Who>("/api/v1/session").then(setWho, (error: Failure) => setWho(error));
    };
    useEffect(look, []);
    useEffect(() => {
        document.title = `${NAMES[screen]} – Ringside`;
    }, [screen]);
    if (who instanceof Failure) return <SignIn failure={who} again={look} />;
    const may = (scope: string) => signedIn && who.scopes.includes(scope);
    const kind = KINDS[screen];
    return (
        <>
            <header>
                <a class="name" href={link("ring")}>
                    <img src="/icon.svg" alt="" width="26" height="26" />
                    Ringside
                </a>
                <nav aria-label="Screens">
                    {SCREENS.map((name, index) => (
                        <a
                            key={name}
                            href={link(name, kept(name, here))}
                            aria-current={name === screen ? "page" : undefined}
                            title={`Key ${(index + 1) % 10}`}
                        >
                            {NAMES[name]}
                        </a>
                    ))}
                </nav>
                <Connection state={live.state} />
                <button class="plain" onClick={turn} title="Colours: as the system, light, dark">
                    Theme: {theme}
                </button>
            </header>
            <main>
                <h1 class="unseen">{NAMES[screen]}</h1>
                {screen === "ring" && <Ring live={live} chosen={chosen} />}
                {screen === "health" && <Health live={live} />}
                {screen === "rules" && (
                    <Rules live={live} chosen={chosen} mayChange={may("control")} />
                )}
                {screen === "packets" && <Packets chosen={chosen} mayGet={may("packets")} />}
                {screen === "sql" && <Sql chosen={chosen} />}
                {kind && <Records key={screen} screen={screen} chosen={chosen} kinds={kind} />}
            </main>
            <footer>
                <span>{signedIn ? who.name : ""}</span>
                <span>
                    <a href="/api/v1/openapi.json">API</a> · <a href="/metrics">Metrics</a> · Keys
                    0–9
                </span>
            </footer>
        </>
    );
}

render(<App />, document.getElementById("page") as HTMLElement);
