// Helpers for browser tests: a visitor of the page, and a watch for violations.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { after } from "node:test";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { Belljar, type TokenSpec } from "../../../sdk/typescript/src/index.ts";
import { atEnd, type Owner } from "../../../sdk/typescript/test/server.ts";
import { start } from "./stage.ts";
import { soaking } from "./tier.ts";

export * from "../../../sdk/typescript/test/server.ts";

/** A server of the page: the shared one of all test files, or one that a test has started. */
export interface Place {
  url: string;
  apiKey: string;
}

/** common returns the shared server of all test files. Other tests use it too, with their own users. */
export const common = (): Place => ({ url: needed("BELLJAR_WEB_SERVER"), apiKey: needed("BELLJAR_WEB_KEY") });

function needed(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run this with npm test`);
  return value;
}

/** operator returns a client with the role admin. */
export function operator(t: Owner, place = common()): Belljar {
  const client = new Belljar({ baseUrl: place.url, apiKey: place.apiKey });
  atEnd(t, () => client.close());
  return client;
}

/** The options of a visit. */
export interface VisitOptions {
  /** The server; by default the common one. */
  place?: Place;
  /** By default a name that no other visitor has. */
  user?: string;
  /** By default user. */
  role?: TokenSpec["role"];
  /** false starts at the sign-in. */
  signedIn?: boolean;
  javaScript?: boolean;
  width?: number;
  height?: number;
}

/** A visitor: a new user in a clean browser context. */
export interface Visit {
  place: Place;
  user: string;
  /** The user's API key. */
  key: string;
  /** A client with the user's key. */
  api: Belljar;
  context: BrowserContext;
  page: Page;
  /** open opens a page of Belljar, such as `sandbox/runs`, and waits for its heading. */
  open(path: string, page?: Page): Promise<void>;
  /** allow permits a console.error, an uncaught error or a violation of the policy. Any other fails the test. */
  allow(pattern: RegExp): void;
  /** tab opens another page in the same browser context. */
  tab(): Promise<Page>;
  /** inject adds a script that runs before those of every page. */
  inject(script: () => void): Promise<unknown>;
}

/** A browser context for one visitor after the other, because starting one takes a second of CPU time. */
interface Room {
  context: BrowserContext;
  page: Page;
  /** The violations of the page. */
  noted: string[];
  /** Whether it cannot be reused for another visitor. */
  used: boolean;
}

const inTest = process.env["NODE_TEST_CONTEXT"] !== undefined;
const free: Room[] = [];
let shared: Promise<Browser> | undefined;
if (inTest) after(async () => (await shared)?.close()); // an open browser keeps the process alive

/** enter returns a room for a visitor, as empty as a new one. */
async function enter(t: Owner, { place = common(), width = 1280, height = 800, javaScript = true }: VisitOptions, token: string | undefined): Promise<Room> {
  const room = (javaScript ? free.pop() : undefined) ?? (await build(t, javaScript));
  const { context, page, noted } = room;
  await page.setViewportSize({ width, height });
  if (javaScript) {
    await empty(page, place.url);
    await page.evaluate((token) => {
      localStorage.clear();
      sessionStorage.clear();
      if (token) localStorage.setItem("belljar.token", token);
    }, token);
  }
  context.setDefaultTimeout(180_000);
  noted.length = 0;
  return room;
}

/** empty opens an empty page of the server's origin. A page of another origin would start another process. */
async function empty(page: Page, url: string): Promise<void> {
  const at = `${url}/empty`;
  if (page.url() === at) return;
  await page.route(at, (route) => route.fulfill({ contentType: "text/html", body: `<!doctype html><link rel="icon" href="data:,"><title>empty</title>` }));
  await page.goto(at);
  await page.unrouteAll();
}

async function build(t: Owner, javaScriptEnabled: boolean): Promise<Room> {
  // Tests have a Chromium for each process. Events of a shared one would reach every process.
  const browser = await (inTest ? (shared ??= start()) : chromium.connect(needed("BELLJAR_WEB_BROWSER")));
  if (!inTest) atEnd(t, () => browser.close());
  // A blinking cursor makes the browser draw sixty times a second.
  const context = await browser.newContext({ javaScriptEnabled, reducedMotion: "reduce" });
  const noted = await watch(context);
  return { context, page: await context.newPage(), noted, used: !inTest || !javaScriptEnabled };
}

/** leave cleans a room for the next visitor. */
async function leave(room: Room, place: Place): Promise<void> {
  const { context, page, used } = room;
  if (used || page.isClosed()) return context.close();
  for (const other of context.pages()) if (other !== page) await other.close();
  page.removeAllListeners();
  page.on("dialog", (dialog) => void dialog.accept()); // about unsaved changes
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await context.clearPermissions();
  await page.emulateMedia({ colorScheme: null });
  await empty(page, place.url);
  page.removeAllListeners();
  free.push(room);
}

let users = 0;

/** visit creates a visitor, signed in by default. */
export async function visit(t: Owner, options: VisitOptions = {}): Promise<Visit> {
  const place = options.place ?? common();
  const user = options.user ?? `visitor-${process.pid}-${++users}`;
  const { secret: key } = await operator(t, place).tokens.create({ user_id: user, role: options.role ?? "user", name: "browser tests" });
  if (!key) throw new Error("the server made no key");
  const api = new Belljar({ baseUrl: place.url, apiKey: key });
  atEnd(t, () => api.close());

  const token = options.signedIn === false ? undefined : await login(place, key);
  const room = await enter(t, options, token);
  const { context, page } = room;
  const allowed: RegExp[] = [];
  atEnd(t, async () => {
    const rest = room.noted.filter((text) => !allowed.some((pattern) => pattern.test(text)));
    await leave(room, place);
    assert.deepEqual(rest, [], "what the page must not do");
  });
  return {
    place, user, key, api, context, page,
    allow: (pattern) => void allowed.push(pattern),
    inject: (script) => {
      room.used = true;
      return context.addInitScript(script);
    },
    open: async (path, at = page) => {
      await at.goto(`${place.url}/webui/${path}`);
      await at.locator("main h1").first().waitFor();
    },
    tab: () => context.newPage(),
  };
}

/** login exchanges a key for a token of the page. */
export async function login(place: Place, key: string): Promise<string> {
  const answer = await fetch(`${place.url}/api/v1/sandbox/login`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ key }),
  });
  const body = (await answer.json()) as { token?: string };
  if (!body.token) throw new Error(`sign-in failed: ${answer.status} ${JSON.stringify(body)}`);
  return body.token;
}

/** watch records violations of the page. */
async function watch(context: BrowserContext): Promise<string[]> {
  const noted: string[] = [];
  await context.exposeBinding("noteViolation", (_, text: string) => void noted.push(text));
  await context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (e) => {
      const note = (window as unknown as { noteViolation: (text: string) => void }).noteViolation;
      note(`violation of ${e.effectiveDirective} by ${e.blockedURI} at ${e.sourceFile}:${e.lineNumber} ${e.sample}`);
    });
  });
  context.on("console", (message) => {
    if (message.type() === "error") noted.push(`console: ${message.text()} (${message.location().url})`);
  });
  context.on("weberror", (error) => noted.push(`uncaught: ${error.error().stack ?? String(error.error())}`));
  return noted;
}

const axeSource = new URL("../../../../node_modules/axe-core/axe.min.js", import.meta.url);

// Rules whose result depends on the theme or the width. All others give the same result for every look.
const byLook = ["color-contrast", "target-size", "scrollable-region-focusable", "link-in-text-block"];

/** axe lists the findings of axe-core on the current page, for all its rules or for some. */
export async function axe(page: Page, rules?: string[]): Promise<string[]> {
  // The protocol's own evaluation is exempt from the page's policy, which stays in force.
  const devtools = await page.context().newCDPSession(page);
  const evaluate = async (expression: string): Promise<unknown> => {
    const { result, exceptionDetails } = await devtools.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  };
  if (!(await evaluate("'axe' in window"))) await evaluate(`${readFileSync(axeSource, "utf8")};0`);
  const found = await evaluate(`axe.run(document, { runOnly: ${JSON.stringify(rules ?? ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"])}, resultTypes: ["violations"], preload: false, iframes: false })
    .then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + v.help + ": " + n.target.join(" ") + ": " + (n.any[0]?.message ?? n.all[0]?.message ?? ""))))`);
  await devtools.detach();
  return found as string[];
}

/** The looks to check for every page: each theme and each width once, the first with all rules. Pictures are of all four. */
export const looks = [{ theme: "light", width: 1280 }, { theme: "dark", width: 390 }, ...(process.env["BELLJAR_WEB_PICTURES"] ? [
  { theme: "dark", width: 1280 }, { theme: "light", width: 390 },
] as const : [])] as const;

/**
 * accessible fails if axe-core reports a finding, or if the page is wider than the window: in both themes, at the widths of a
 * desktop and a phone. With BELLJAR_WEB_PICTURES it saves a picture of each in that folder.
 */
export async function accessible(page: Page, name: string): Promise<void> {
  const size = page.viewportSize() ?? { width: 1280, height: 800 };
  for (const [i, { theme, width }] of looks.entries()) {
    await page.emulateMedia({ colorScheme: theme });
    await page.setViewportSize({ width, height: size.height });
    await picture(page, `${name}-${theme}-${width}`);
    assert.deepEqual(await axe(page, i > 0 ? byLook : undefined), [], `${name}, ${theme}, ${width} px`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= width, `${name} is ${wide} px wide in a window of ${width} px`);
  }
  await page.emulateMedia({ colorScheme: null });
  await page.setViewportSize(size);
}

/** alsoAccessible is accessible in make soak alone, for another state of a view that make test checks elsewhere. */
export const alsoAccessible: typeof accessible = async (page, name) => {
  if (soaking) await accessible(page, name);
};

/** picture saves a picture of the page in BELLJAR_WEB_PICTURES, if that is set. */
export async function picture(page: Page, name: string): Promise<void> {
  const folder = process.env["BELLJAR_WEB_PICTURES"];
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
}
