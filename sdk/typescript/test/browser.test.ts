// The SDK in a real Chromium, on a page whose origin differs from its server's.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { join, normalize } from "node:path";
import { test } from "node:test";
import { atEnd, limitMs, serve, tempDir, within, type Owner } from "./world.js";

const known = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"].map((name) => `/usr/bin/${name}`);
const chromium = [process.env["CHROMIUM"], ...known].find((path) => path && existsSync(path));
// As root on Debian, make test has installed Chromium, so its absence is a failure. Ubuntu has no such package.
const debian = existsSync("/etc/os-release") && /^ID=["']?debian["']?$/m.test(readFileSync("/etc/os-release", "utf8"));
const skip = !chromium && !(debian && process.getuid?.() === 0) && "no chromium here";

const script = `
import { Belljar, SessionExpiredError, BelljarError } from "/dist/index.js";
const results = {};
try {
  const belljar = new Belljar({ baseUrl: URL_OF_SERVER, apiKey: KEY });
  const run = await belljar.run({ language: "python", code: "print('grüße')" });
  results.run = run.stdout;
  results.key = (await belljar.run(["echo", "x"], { idempotencyKey: "page" })).id === (await belljar.run(["echo", "x"], { idempotencyKey: "page" })).id;
  const session = await belljar.sessions.create();
  await session.files.write("a.bin", new Uint8Array([0, 255, 128]));
  results.bytes = [...(await session.read("a.bin"))];
  results.part = [...(await session.files.read("a.bin", { offset: 1, limit: 1 }))];
  results.streamed = (await session.files.write("s", new Response("abc").body)).size;
  results.uploaded = (await session.files.upload({ "u/1": "one", "u/2": new Blob(["two"]) })).file_count;
  const long = await belljar.runs.start(["sh", "-c", "for i in $(seq 1000); do echo line $i; done"]);
  let text = "", next = 1, ordered = true;
  for await (const frame of belljar.runs.frames(long.id)) {
    ordered &&= frame.seq === next++;
    if (frame.type === "stdout") text += frame.text;
  }
  results.lines = [ordered, text.split("\\n").length - 1];
  let seen = "";
  const shell = await session.exec("cd /tmp; echo shell; false", { onOutput: (f) => { seen += f.text; } });
  results.shell = [shell.exitCode, shell.cwd, seen];
  const terminal = await session.terminal({ cols: 90, command: ["sh", "-c", "read -r l; stty size; echo got $l; exit 5"] });
  await terminal.write("typed é\\n");
  let screen = "";
  for await (const event of terminal) {
    if (event.kind === "output" || event.kind === "history") screen += event.text;
    if (event.kind === "exit") results.exit = event.exitCode;
  }
  results.screen = screen.includes("24 90") && screen.includes("got typed é");
  const cat = await belljar.runs.start({ command: ["cat"], interactive: true });
  const input = await belljar.runs.input(cat.id);
  await input.write("to the cat\\n");
  await input.end();
  results.cat = (await belljar.runs.wait(cat.id)).stdout;
  const events = new EventSource(await belljar.ticketUrl("/api/v1/sandbox/runs/" + run.id + "/logs"));
  results.event = await new Promise((resolve) => events.addEventListener("stdout", (e) => resolve(JSON.parse(e.data).data)));
  events.close();
  const stop = new AbortController();
  const given = belljar.run(["sleep", "600"], { signal: stop.signal }).catch((e) => e.code);
  stop.abort();
  results.given = await given;
  await session.destroy();
  results.ended = await session.exec("true").catch((e) => [e instanceof SessionExpiredError, e.status, !!e.requestId]);
  results.local = await Belljar.local().catch((e) => e.code);
  const wrong = new Belljar({ baseUrl: URL_OF_SERVER, apiKey: "wrong" });
  results.wrong = await wrong.me().catch((e) => e.code);
  results.stranger = await wrong.terminals.attach({ id: "x" }).catch((e) => e.code);
  await belljar.close();
} catch (error) {
  results.error = String(error && error.stack || error) + " " + String(error && error.cause || "");
}
document.body.textContent = JSON.stringify(results);
`;

test("all of it works in a browser", { skip }, async (t) => {
  assert.ok(chromium, "chromium is missing; make packages installs it");
  let server: { url: string; apiKey: string };
  const pages = createServer((request, response) => {
    const path = normalize(new URL(request.url!, "http://x").pathname);
    if (path === "/") return void response.writeHead(200, { "Content-Type": "text/html; charset=utf-8" }).end('<body><script type="module" src="/page.js"></script></body>');
    if (path === "/page.js") {
      const text = script.replaceAll("URL_OF_SERVER", JSON.stringify(server.url)).replaceAll("KEY", JSON.stringify(server.apiKey));
      return void response.writeHead(200, { "Content-Type": "text/javascript; charset=utf-8" }).end(text);
    }
    asked.push(path);
    if (!/^\/dist\/[\w/.-]+\.js$/.test(path) || !existsSync("." + path)) return void response.writeHead(404).end();
    response.writeHead(200, { "Content-Type": "text/javascript; charset=utf-8" }).end(readFileSync("." + path));
  });
  const asked: string[] = [];
  pages.listen(0, "127.0.0.1");
  await once(pages, "listening");
  atEnd(t, () => {
    pages.close();
    pages.closeAllConnections();
  });
  const origin = `http://127.0.0.1:${(pages.address() as AddressInfo).port}`;
  server = await serve(t, { set: [`allowed_origins=${origin}`] });

  const results = await within("the page", show(t, origin));
  assert.equal(results["error"], undefined, String(results["error"]));
  assert.deepEqual(results, {
    run: "grüße\n", key: true, bytes: [0, 255, 128], part: [255], streamed: 3, uploaded: 2, lines: [true, 1000], shell: [1, "/tmp", "shell\n"],
    exit: 5, screen: true, cat: "to the cat\n", event: "grüße\n", given: "canceled", ended: [true, 409, true], local: "invalid_request", wrong: "unauthorized",
    stranger: "unauthorized",
  });
  assert.deepEqual(asked.filter((path) => path.includes("/node/")), [], "what only node has");
});

/** show opens a page and returns the result that the page reports. */
async function show(t: Owner, origin: string): Promise<Record<string, unknown>> {
  const dir = tempDir(t, "/tmp");
  const child = spawn(chromium!, [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--disable-background-networking",
    "--remote-debugging-port=0", `--user-data-dir=${join(dir, "profile")}`, origin,
  ], { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, HOME: dir, TMPDIR: dir }, detached: true });
  const gone = once(child, "close");
  atEnd(t, async () => {
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid!, "SIGKILL"); // Chromium is many processes
    await gone;
  });
  let said = "";
  const debug = await new Promise<string>((resolve, reject) => {
    child.stderr.on("data", (data: Buffer) => {
      said += data.toString();
      const port = /DevTools listening on ws:\/\/([^/]+)\//.exec(said)?.[1];
      if (port) resolve(port);
    });
    child.on("close", () => reject(new Error(`chromium ended: ${said}`)));
  });
  const { dial } = await import("../src/node/websocket.js");
  let page: { webSocketDebuggerUrl: string } | undefined;
  for (const deadline = Date.now() + limitMs; !page && Date.now() < deadline; ) {
    const list = (await (await fetch(`http://${debug}/json/list`)).json()) as { type: string; url: string; webSocketDebuggerUrl: string }[];
    page = list.find((p) => p.type === "page" && p.url.startsWith(origin));
    if (!page) await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const socket = await dial()(page!.webSocketDebuggerUrl, {}, new AbortController().signal);
  atEnd(t, () => socket.cut());
  for (let id = 1; ; id++) {
    await socket.send(JSON.stringify({ id, method: "Runtime.evaluate", params: { expression: "document.body ? document.body.textContent : ''", returnByValue: true } }));
    const got = await socket.receive();
    if (got.kind !== "text") throw new Error(`chromium went away: ${said}`);
    const value = (JSON.parse(got.data) as { result?: { result?: { value?: string } } }).result?.result?.value?.trim();
    if (value?.startsWith("{")) return JSON.parse(value) as Record<string, unknown>;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
