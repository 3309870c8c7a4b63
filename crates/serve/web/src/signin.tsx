import { useState } from "preact/hooks";
import { Failure, ask, type Who } from "./api";

/** Asks for a token, which is exchanged for a cookie that no script can read. */
export function SignIn({ failure, again }: { failure: Failure; again: () => void }) {
    const [token, set] = useState("");
    const [error, setError] = useState("");
    const signIn = (event: Event) => {
        event.preventDefault();
        const headers = { authorization: `Bearer ${token.trim()}` };
        ask<Who>("/api/v1/session", { method: "POST", headers }).then(again, (wrong: Failure) =>
            setError(wrong.status === 401 ? "This token is not known." : wrong.message),
        );
    };
    if (failure.status !== 401) {
        return (
            <main class="alone">
                <h1>Ringside</h1>
                <p class="notice bad">{failure.message}</p>
                <button onClick={again}>Try again</button>
            </main>
        );
    }
    return (
        <main class="alone">
            <h1>Ringside</h1>
            <form onSubmit={signIn}>
                <label>
                    Token
                    <input
                        type="password"
                        autocomplete="current-password"
                        value={token}
                        onInput={(event) => set(event.currentTarget.value)}
                        autofocus
                    />
                </label>
                <button class="main" disabled={token.trim() === ""}>
                    Sign in
                </button>
                {error && <p class="notice bad">{error}</p>}
            </form>
        </main>
    );
}
