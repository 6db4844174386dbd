// What browser tests stand on: a visitor of the page, and a watch over what must never happen there.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { chromium, type BrowserContext, type Page } from "playwright-core";
import { Belljar, type TokenSpec } from "../../../sdk/typescript/src/index.ts";
import { atEnd, type Owner } from "../../../sdk/typescript/test/server.ts";

export * from "../../../sdk/typescript/test/server.ts";

/** A server that pages come from: the one of all test files, or one that a test has started. */
export interface Place {
  url: string;
  apiKey: string;
}

/** common is the server of all test files. Other tests have work there too, of users of their own. */
export const common = (): Place => ({ url: needed("BELLJAR_WEB_SERVER"), apiKey: needed("BELLJAR_WEB_KEY") });

function needed(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run this with npm test`);
  return value;
}

/** operator is a client that may do everything. */
export function operator(t: Owner, place = common()): Belljar {
  const client = new Belljar({ baseUrl: place.url, apiKey: place.apiKey });
  atEnd(t, () => client.close());
  return client;
}

/** Who visits, and how. */
export interface VisitOptions {
  /** The server; the common one if it is not given. */
  place?: Place;
  /** A name that no other visitor has, if it is not given. */
  user?: string;
  /** user if it is not given. */
  role?: TokenSpec["role"];
  /** false begins at the sign-in. */
  signedIn?: boolean;
  javaScript?: boolean;
  width?: number;
  height?: number;
}

/** A visitor: a user of their own in a browser of their own. */
export interface Visit {
  place: Place;
  user: string;
  /** The API key of the user. */
  key: string;
  /** The API as the user. */
  api: Belljar;
  context: BrowserContext;
  page: Page;
  /** open shows a page of Belljar's, such as `sandbox/runs`, and waits for its heading. */
  open(path: string, page?: Page): Promise<void>;
  /** allow announces a console.error, an uncaught error or a violation of the policy. What is not announced fails the test. */
  allow(pattern: RegExp): void;
  /** tab opens another page of the same browser. */
  tab(): Promise<Page>;
}

let users = 0;

/** visit makes a visitor, signed in unless the options say otherwise. */
export async function visit(t: Owner, options: VisitOptions = {}): Promise<Visit> {
  const place = options.place ?? common();
  const user = options.user ?? `visitor-${process.pid}-${++users}`;
  const { secret: key } = await operator(t, place).tokens.create({ user_id: user, role: options.role ?? "user", name: "browser tests" });
  if (!key) throw new Error("the server made no key");
  const api = new Belljar({ baseUrl: place.url, apiKey: key });
  atEnd(t, () => api.close());

  const browser = await chromium.connect(needed("BELLJAR_WEB_BROWSER"));
  atEnd(t, () => browser.close()); // an open connection keeps the process
  const token = options.signedIn === false ? undefined : await login(place, key);
  const context = await browser.newContext({
    viewport: { width: options.width ?? 1280, height: options.height ?? 800 },
    javaScriptEnabled: options.javaScript ?? true,
    storageState: token ? { cookies: [], origins: [{ origin: place.url, localStorage: [{ name: "belljar.token", value: token }] }] } : undefined,
  });
  context.setDefaultTimeout(60_000);
  const { allow, check } = await watch(context);
  atEnd(t, async () => {
    const rest = await check();
    await context.close();
    assert.deepEqual(rest, [], "what the page must not do");
  });
  const page = await context.newPage();
  return {
    place, user, key, api, context, page, allow,
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

/** watch notes what no page of Belljar's may do. */
async function watch(context: BrowserContext): Promise<{ allow: (pattern: RegExp) => void; check: () => Promise<string[]> }> {
  const noted: string[] = [];
  const allowed: RegExp[] = [];
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
  return {
    allow: (pattern) => void allowed.push(pattern),
    check: async () => noted.filter((text) => !allowed.some((pattern) => pattern.test(text))),
  };
}

const axeSource = new URL("../../../../node_modules/axe-core/axe.min.js", import.meta.url);

// What a theme or a width can change. All else is the same in every look.
const byLook = ["color-contrast", "target-size", "scrollable-region-focusable", "link-in-text-block"];

/** axe lists what axe-core has against the page as it is, by all its rules or by some. */
export async function axe(page: Page, rules?: string[]): Promise<string[]> {
  // The protocol's own evaluation is exempt from the page's policy, which stays in force.
  const devtools = await page.context().newCDPSession(page);
  const evaluate = async (expression: string): Promise<unknown> => {
    const { result, exceptionDetails } = await devtools.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  };
  if (!(await evaluate("'axe' in window"))) await evaluate(`${readFileSync(axeSource, "utf8")};0`);
  const found = await evaluate(`axe.run(document, { runOnly: ${JSON.stringify(rules ?? ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"])}, resultTypes: ["violations"] })
    .then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + v.help + ": " + n.target.join(" ") + ": " + (n.any[0]?.message ?? n.all[0]?.message ?? ""))))`);
  await devtools.detach();
  return found as string[];
}

/** The looks that every page is checked in: each theme and each width once, the first by all rules. Pictures are of all four. */
export const looks = [{ theme: "light", width: 1280 }, { theme: "dark", width: 390 }, ...(process.env["BELLJAR_WEB_PICTURES"] ? [
  { theme: "dark", width: 1280 }, { theme: "light", width: 390 },
] as const : [])] as const;

/**
 * accessible fails if axe-core has anything against the page, or if it is wider than the window: in both themes, on a desktop and on
 * a phone. With BELLJAR_WEB_PICTURES it leaves a picture of each in that folder.
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

/** picture leaves a picture of the page in BELLJAR_WEB_PICTURES, if that is set. */
export async function picture(page: Page, name: string): Promise<void> {
  const folder = process.env["BELLJAR_WEB_PICTURES"];
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
}
