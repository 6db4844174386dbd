// Measures the size and speed of the page. It exits with 1 if a budget is exceeded.
import { readFileSync, readdirSync, statSync } from "node:fs";
import { loadavg } from "node:os";
import { gunzipSync, gzipSync } from "node:zlib";
import type { Page } from "playwright-core";
import { Until } from "../browser/owner.ts";
import { visit, type Visit } from "../browser/world.ts";
import { bare } from "./bare.ts";

let failed = false;

function report(name: string, value: number, budget: number, unit: string): void {
  const good = value <= budget;
  failed ||= !good;
  console.log(`${good ? "ok  " : "MISS"} ${name.padEnd(44)} ${value.toFixed(value < 10 ? 1 : 0).padStart(6)} ${unit.padEnd(3)} budget ≤ ${budget} ${unit}`);
}

/** rank returns the value below or at which the given share of all values lies. */
const rank = (values: number[], share: number): number => values.toSorted((a, b) => a - b)[Math.ceil(values.length * share) - 1]!;

/** packed returns the compressed size of a file of dist. */
function packed(name: string): number {
  try {
    return statSync(`dist/${name}.gz`).size;
  } catch {
    return gzipSync(readFileSync(`dist/${name}`), { level: 9 }).length;
  }
}

/** shell returns the total size of the files that each page needs first: those that index.html names, and their static imports. */
function shell(): number {
  const text = (name: string): string => {
    const files = readdirSync("dist/assets");
    const file = files.find((one) => one === name || one === `${name}.gz`);
    if (!file) throw new Error(`dist has no ${name}`);
    const bytes = readFileSync(`dist/assets/${file}`);
    return (file.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString();
  };
  const seen = new Set<string>();
  const add = (name: string): void => {
    if (seen.has(name)) return;
    seen.add(name);
    // Static imports: import … from"./x.js" and import"./x.js". import("./x.js") loads later.
    if (name.endsWith(".js")) for (const [, next] of text(name).matchAll(/(?:from|import)\s*["']\.\/([\w.-]+)["']/g)) add(next!);
  };
  for (const [, name] of readFileSync("dist/index.html", "utf8").matchAll(/assets\/([\w.-]+\.(?:js|css))/g)) add(name!);
  return [...seen].reduce((sum, name) => sum + packed(`assets/${name}`), 0);
}

/** opened measures a first visit: milliseconds to the first paint, and until the list of runs is shown. */
async function opened(v: Visit): Promise<{ paint: number; usable: number }> {
  await v.page.addInitScript(() => {
    new MutationObserver((_, observer) => {
      if (!document.querySelector("main h2, main table")) return;
      observer.disconnect();
      requestAnimationFrame(() => Object.assign(window, { usable: performance.now() }));
    }).observe(document, { childList: true, subtree: true });
  });
  await v.open("sandbox/runs");
  await v.page.waitForFunction(() => "usable" in window && performance.getEntriesByName("first-contentful-paint").length > 0);
  return v.page.evaluate(() => ({
    paint: performance.getEntriesByName("first-contentful-paint")[0]!.startTime, usable: (window as unknown as { usable: number }).usable,
  }));
}

/** since measures the time in the page from a key press until something is shown. */
async function since(page: Page, keys: string[], shown: string): Promise<number> {
  await page.evaluate((selector) => {
    const marks = { begin: 0, end: 0 };
    Object.assign(window, { marks });
    document.addEventListener("keydown", () => { marks.begin = performance.now(); }, { capture: true });
    new MutationObserver((_, observer) => {
      if (!marks.begin || ![...document.querySelectorAll(selector)].some((one) => one.textContent?.trim())) return;
      observer.disconnect();
      requestAnimationFrame(() => { marks.end = performance.now(); });
    }).observe(document, { childList: true, subtree: true, characterData: true });
  }, shown);
  for (const key of keys) await page.keyboard.press(key);
  await page.waitForFunction(() => (window as unknown as { marks: { end: number } }).marks.end > 0);
  return page.evaluate(() => {
    const { marks } = window as unknown as { marks: { begin: number; end: number } };
    return marks.end - marks.begin;
  });
}

/** compared prints a figure next to that of a bare page, which is slowed by the machine's load in the same way. */
function compared(name: string, value: number, bareValue: number): void {
  console.log(`     ${name.padEnd(44)} ${bareValue.toFixed(0).padStart(6)} ms, so ${(value / bareValue).toFixed(1)} times that`);
}

/** painted measures the first paint of a page that is not Belljar's. */
async function painted(v: Visit, url: string): Promise<number> {
  await v.page.goto(url);
  await v.page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length > 0);
  return v.page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]!.startTime);
}

/** typed presses keys one after the other. It measures each until the key is shown and the next frame begins. */
async function typed(page: Page, shown: string, count: number): Promise<number[]> {
  await page.evaluate((selector) => {
    const box = document.querySelector(selector)!;
    const letters = () => box.textContent!.replace(/\s/g, "").length;
    const marks = { begin: 0, before: 0, took: [] as number[] };
    Object.assign(window, { marks });
    document.addEventListener("keydown", ({ key }) => {
      if (key.length > 1) return;
      marks.before = letters();
      marks.begin = performance.now();
    }, { capture: true });
    new MutationObserver(() => {
      if (!marks.begin || letters() <= marks.before) return;
      const { begin } = marks;
      marks.begin = 0;
      requestAnimationFrame(() => marks.took.push(performance.now() - begin));
    }).observe(box, { childList: true, subtree: true, characterData: true });
  }, shown);
  for (let i = 1; i <= count; i++) {
    await page.keyboard.press(String.fromCharCode(97 + (i % 26)));
    await page.waitForFunction((wanted) => (window as unknown as { marks: { took: number[] } }).marks.took.length >= wanted, i);
  }
  return page.evaluate(() => (window as unknown as { marks: { took: number[] } }).marks.took);
}

const owner = new Until();
const other = await bare();
console.log(`load ${loadavg()[0]!.toFixed(1)}`);
report("shell, compressed", shell() / 1000, 60, "kB");

const visits = [];
const empty: number[] = [];
for (let i = 0; i < 11; i++) {
  const one = new Until();
  visits.push(await opened(await visit(one)));
  await one.end();
  const two = new Until();
  empty.push(await painted(await visit(two), other.url));
  await two.end();
}
report("first paint, median", rank(visits.map((one) => one.paint), 0.5), 300, "ms");
compared("  a page of one line", rank(visits.map((one) => one.paint), 0.5), rank(empty, 0.5));
report("usable, median", rank(visits.map((one) => one.usable), 0.5), 500, "ms");

const v = await visit(owner);
const lines: number[] = [];
for (let i = 0; i < 40; i++) {
  await v.open("sandbox");
  await v.page.getByText("Command", { exact: true }).first().click();
  await v.page.getByRole("textbox", { name: "Command" }).fill(`echo line ${i}`);
  lines.push(await since(v.page, ["Control+Enter"], "[aria-label='Lines of the log'] [role=row]"));
}
report("run submitted to its first line shown, p95", rank(lines, 0.95), 150, "ms");

const session = await v.api.sessions.create({ base_image: "host" });
await v.open(`sandbox/sessions/${session.id}`);
await v.page.getByRole("button", { name: "Open a terminal" }).click();
await v.page.locator(".xterm-rows").waitFor();
await v.page.locator(".xterm-helper-textarea").focus();
await v.page.keyboard.type("cat\n");
await v.page.locator(".xterm-rows").getByText("cat").first().waitFor();
const keys = await typed(v.page, ".xterm-rows", 200);
const side = await v.tab();
await side.goto(`${other.url}/echo`);
await side.waitForFunction(() => document.title === "open");
const bareKeys = await typed(side, ".keys", 200);
await side.close();
for (const [name, share, budget] of [["p50", 0.5, 30], ["p99", 0.99, 100]] as const) {
  report(`keystroke shown by a terminal, ${name}`, rank(keys, share), budget, "ms");
  compared("  by a bare WebSocket and a paragraph", rank(keys, share), rank(bareKeys, share));
}

const many = Number(process.env["BELLJAR_BENCH_RUNS"] ?? 1000); // runs in the list
let next = (await v.api.runs.list({ limit: 1 })).total;
await Promise.all([0, 1, 2, 3].map(async () => {
  while (next++ < many) await v.api.run({ command: ["true"] });
}));
await v.open("sandbox/sessions");
const lists: number[] = [];
for (let i = 0; i < 11; i++) {
  lists.push(await since(v.page, ["g", "r"], "main tbody tr"));
  await v.page.keyboard.press("g");
  await v.page.keyboard.press("s");
  await v.page.getByRole("heading", { name: "Sessions", exact: true }).waitFor();
}
report(`a page of ${(await v.api.runs.list({ limit: 1 })).total.toLocaleString("en")} runs, median`, rank(lists, 0.5), 200, "ms");
await session.destroy();
await other.close();
await owner.end();
process.exitCode = failed ? 1 : 0;
