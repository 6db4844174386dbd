// One server for all test files, and their Chromium.
import { readFileSync, existsSync } from "node:fs";
import { chromium, type Browser } from "playwright-core";
import { apiKey, atEnd, serve, type Owner } from "../../../sdk/typescript/test/server.ts";

const debians = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];

/** Debian's Chromium, unless BELLJAR_CHROMIUM names another. The headless shell needs half as much CPU time. */
export const program = process.env["BELLJAR_CHROMIUM"] ?? debians.find((path) => existsSync(path)) ?? debians[0]!;

/**
 * Disables features that make the tests slower or less deterministic. V8 collects garbage less often, and on one thread, which takes less CPU
 * time.
 */
const flags = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--force-color-profile=srgb", "--font-render-hinting=none",
  "--js-flags=--min-semi-space-size=16 --single-threaded-gc"];

function options(): { executablePath: string; args: string[] } {
  if (!existsSync(program)) throw new Error(`${program} is missing: make packages installs it`);
  return { executablePath: program, args: flags };
}

/** start starts a Chromium for this process alone. It ends with the process. */
export const start = (): Promise<Browser> => chromium.launch(options());

/** launch starts a Chromium that other processes can use, and returns its address. It ends with the owner. */
export async function launch(owner: Owner): Promise<string> {
  const server = await chromium.launchServer({ ...options(), host: "127.0.0.1" });
  atEnd(owner, () => server.close());
  return server.wsEndpoint();
}

/** open starts a server, and a Chromium if `browser` is true, and returns the environment variables for the test files. */
export async function open(owner: Owner, browser: boolean): Promise<Record<string, string>> {
  const [server, address] = await Promise.all([serve(owner), browser ? launch(owner) : ""]);
  await samePage(server.url);
  return { BELLJAR_WEB_SERVER: server.url, BELLJAR_WEB_KEY: apiKey, BELLJAR_WEB_BROWSER: address };
}

/** samePage fails if the server's page is not the one in dist. */
export async function samePage(url: string): Promise<void> {
  const scripts = (text: string) => [...text.matchAll(/assets\/[\w.-]+/g)].map(([name]) => name).join(" ");
  const served = await fetch(`${url}/webui/`).then((answer) => answer.text());
  if (scripts(served) !== scripts(readFileSync("dist/index.html", "utf8"))) {
    throw new Error("the belljar program has another page than web/dist: make web build");
  }
}
