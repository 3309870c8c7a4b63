// Looks at views of the page as a person's browser shows them, and prints what it saw as JSON, for
// the test that started it to judge.
//
//   node browser.mjs MODULES CHROMIUM URL < VIEWS
//
// MODULES is a folder with puppeteer-core and axe-core in its node_modules. VIEWS is a JSON array of
//   {name, hash, click, wait, read, keys}
// `hash` is the part of the address behind #; `click` a button that asks, if nothing was asked;
// `wait` a selector of what has to appear; `read` selectors, of which all texts are given back;
// `keys` a selector that Tab has to reach, and where Enter then leads elsewhere.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, executablePath, url] = process.argv.slice(2);
const require = createRequire(join(modules, "package.json"));
const puppeteer = require("puppeteer-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const views = JSON.parse(readFileSync(0, "utf8"));

/** What a view may take. A test of a machine under load waits for long, and asserts no time. */
const WAIT_MS = 120_000;
/** Steps of Tab until what should be reached must have been. */
const STEPS_MAX = 80;
/** Width and theme of each look: the narrowest that the page is made for, too. */
const LOOKS = [
    { width: 1280, theme: "light" },
    { width: 1280, theme: "dark" },
    { width: 1024, theme: "light" },
];

const browser = await puppeteer.launch({
    executablePath,
    // The test is root, as whom Chromium has no sandbox; it sees this page alone.
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
    timeout: WAIT_MS,
    protocolTimeout: WAIT_MS,
});

/** Rules of WCAG 2, levels A and AA, that the page breaks now. */
async function violations(page) {
    await page.evaluate(axe);
    return page.evaluate(async () => {
        const runOnly = { type: "tag", values: ["wcag2a", "wcag2aa"] };
        const found = await window.axe.run(document, { runOnly });
        return found.violations.map(({ id, nodes }) => {
            const shown = nodes.slice(0, 5).map(({ html, any }) => `${html} ${any[0]?.message ?? ""}`);
            return `${id} (${nodes.length}): ${shown.join("; ").slice(0, 600)}`;
        });
    });
}

/** True if Tab comes to one of these, and Enter leads on from there. */
async function leadsOn(page, selector) {
    const before = await page.evaluate(() => location.hash);
    await page.evaluate(() => document.activeElement?.blur());
    for (let step = 0; step < STEPS_MAX; step += 1) {
        await page.keyboard.press("Tab");
        const is = (wanted) => document.activeElement?.matches(wanted) ?? false;
        if (await page.evaluate(is, selector)) {
            await page.keyboard.press("Enter");
            return (await page.evaluate(() => location.hash)) !== before;
        }
    }
    return false;
}

/** A view in each look, read at the first. */
async function seen({ name, hash, click, wait, read = [], keys }) {
    const page = await browser.newPage();
    const errors = [];
    page.on("console", (message) => {
        if (["error", "warn"].includes(message.type())) errors.push(message.text());
    });
    page.on("pageerror", (error) => errors.push(String(error)));
    page.setDefaultTimeout(WAIT_MS);
    const broken = [];
    const wide = [];
    let texts = {};
    let times = {};
    for (const [at, { width, theme }] of LOOKS.entries()) {
        await page.setViewport({ width, height: 900 });
        await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
        if (at === 0) {
            await page.goto(`${url}#${hash}`, { waitUntil: "domcontentloaded" });
            if (click) await (await page.waitForSelector(click)).click();
            await page.waitForSelector(wait);
            times = await page.evaluate(() => {
                const [paint] = performance.getEntriesByName("first-contentful-paint");
                const ms = (time) => Math.round(time ?? -1);
                return { paint_ms: ms(paint?.startTime), shown_ms: ms(performance.now()) };
            });
            texts = await page.evaluate((selectors) => {
                const texts = (selector) =>
                    [...document.querySelectorAll(selector)].map((one) => one.textContent.trim());
                return Object.fromEntries(selectors.map((one) => [one, texts(one)]));
            }, read);
        }
        const look = `${width} ${theme}`;
        for (const found of await violations(page)) broken.push(`${look}: ${found}`);
        const spare = await page.evaluate(
            () => document.documentElement.clientWidth - document.documentElement.scrollWidth,
        );
        if (spare < 0) wide.push(`${look}: ${-spare} pixels beyond the edge`);
        const folder = process.env.RINGSIDE_BROWSER_PICTURES;
        const path = folder && join(folder, `${name}-${width}-${theme}.png`);
        if (path) await page.screenshot({ path, fullPage: true });
    }
    const by_keys = keys ? await leadsOn(page, keys) : null;
    await page.close();
    return { name, errors, violations: broken, wide, texts, by_keys, ...times };
}

const all = [];
try {
    for (const view of views) all.push(await seen(view));
} finally {
    await browser.close();
}
console.log(JSON.stringify(all));
