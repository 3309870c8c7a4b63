import { useEffect, useState } from "preact/hooks";

/** A text to be taken elsewhere. Browsers let a page copy on this host and over TLS. */
export function Copied({ name, text }: { name: string; text: string }) {
    const [done, setDone] = useState(false);
    const copy = () => navigator.clipboard.writeText(text).then(() => setDone(true));
    useEffect(() => setDone(false), [text]);
    return (
        <p class="hint copied">
            {name}: <code>{text}</code>
            {isSecureContext && (
                <button class="plain" onClick={copy} aria-label={`Copy: ${name}`}>
                    {done ? "Copied" : "Copy"}
                </button>
            )}
        </p>
    );
}
