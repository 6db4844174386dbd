// Measures the log viewer in a real Chromium, against a real server, and prints each figure with its budget.
//
//	BELLJAR=../bin/belljar node test/bench/log.js
//
// It exits with 1 if a budget is exceeded. The server serves the page of its build, so run make web build first.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const key = "a-key-of-the-benchmark-0123456789abcdef";
const lines = 1_250_000;
const lineBytes = 80;
const size = lines * lineBytes;
let failed = false;

function report(name, value, budget, unit, most = true) {
  const good = most ? value <= budget : value >= budget;
  failed ||= !good;
  console.log(`${good ? "ok  " : "MISS"} ${name.padEnd(34)} ${value.toFixed(value < 10 ? 2 : 0).padStart(8)} ${unit.padEnd(4)} budget ${most ? "≤" : "≥"} ${budget} ${unit}`);
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function serve(data) {
  const base = `http://127.0.0.1:${await freePort()}`;
  const child = spawn(process.env.BELLJAR ?? "../bin/belljar", ["serve", "--data", data, "--listen", base.slice(7)], {
    stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, SANDBOX_API_KEY: key, SANDBOX_MAX_LOG_BYTES: String(4 * size) },
  });
  let said = "";
  await new Promise((resolve, reject) => {
    child.stderr.on("data", (chunk) => { if ((said += chunk).includes("serving on")) resolve(); });
    child.on("exit", () => reject(new Error(`the server has ended: ${said}`)));
  });
  return { base, child };
}

async function start(base, code) {
  const answer = await fetch(`${base}/api/v1/sandbox/runs`, {
    method: "POST", headers: { "X-API-KEY": key, "Content-Type": "application/json" },
    body: JSON.stringify({ spec_version: "1.1", base_image: "host", language: "python", code, timeout_sec: 120, resources: { log_bytes: 2 * size } }),
  });
  const run = await answer.json();
  if (!answer.ok) throw new Error(JSON.stringify(run));
  return run;
}

async function ended(base, id) {
  const answer = await fetch(`${base}/api/v1/sandbox/runs/${id}/logs?follow=true&from_seq=tail`, { headers: { "X-API-KEY": key } });
  for await (const chunk of answer.body) void chunk;
  const run = await (await fetch(`${base}/api/v1/sandbox/runs/${id}`, { headers: { "X-API-KEY": key } })).json();
  if (run.phase !== "completed") throw new Error(JSON.stringify(run));
}

// watched records the page's actions from its start.
function watched(token) {
  localStorage.setItem("belljar.token", token);
  globalThis.seen = { violations: [], long: [], tasks: [] };
  document.addEventListener("securitypolicyviolation", (e) => seen.violations.push(`${e.violatedDirective} ${e.blockedURI}`));
  new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) {
      seen.long.push(duration);
      seen.tasks.push(`${duration.toFixed(0)} ms at ${startTime.toFixed(0)}`);
    }
  }).observe({ type: "longtask", buffered: true });
  const look = () => {
    if (!seen.log && document.querySelector("section.log")) seen.log = performance.now();
    if (!seen.first && document.querySelector(".log .line .text")?.textContent) seen.first = performance.now();
    if (!seen.all && document.querySelector(".log .foot")?.textContent.startsWith("1,250,000 lines") && !/live|opening/.test(document.querySelector(".log .foot").textContent)) seen.all = performance.now();
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}

// timed returns how long a jump or a search takes until it is on the screen, checked in each frame.
const timed = (page, what, argument) => page.evaluate(async ({ what, argument }) => {
  const from = performance.now();
  if (what === "jump") location.hash = `#L${argument}`;
  else {
    const box = document.querySelector(".log input[type=search]");
    box.value = argument;
    box.dispatchEvent(new Event("input", { bubbles: true }));
  }
  const there = () => what === "jump"
    ? [...document.querySelectorAll(".log .line.chosen .number")].some((n) => n.textContent === String(argument))
    : /^[\d,]+ \/ [\d,]+$/.test(document.querySelector(".log .hits")?.textContent ?? "");
  while (!there()) {
    if (performance.now() - from > 30_000) throw new Error(`${what} ${argument} does not come`);
    await new Promise(requestAnimationFrame);
  }
  return performance.now() - from;
}, { what, argument });

// workerBytes returns the memory of the page's worker.
async function workerBytes(page) {
  const session = await page.context().newCDPSession(page);
  const answer = new Promise((resolve, reject) => {
    session.on("Target.receivedMessageFromTarget", ({ message }) => {
      const { id, result, error } = JSON.parse(message);
      if (id === 2) error ? reject(new Error(error.message)) : resolve(result);
    });
    session.on("Target.attachedToTarget", async ({ sessionId, targetInfo }) => {
      if (targetInfo.type !== "worker") return;
      const send = (id, method) => session.send("Target.sendMessageToTarget", { sessionId, message: JSON.stringify({ id, method }) });
      await send(0, "HeapProfiler.collectGarbage");
      await send(1, "HeapProfiler.collectGarbage"); // frees garbage that the first collection made collectable
      await send(2, "Runtime.getHeapUsage");
    });
  });
  await session.send("Target.setAutoAttach", { autoAttach: true, waitForDebuggerOnStart: false, flatten: false });
  const { usedSize, backingStorageSize = 0 } = await answer;
  await session.send("HeapProfiler.collectGarbage");
  const main = await session.send("Runtime.getHeapUsage");
  await session.detach();
  return { worker: usedSize + backingStorageSize, main: main.usedSize + (main.backingStorageSize ?? 0) };
}

const data = mkdtempSync(join(tmpdir(), "belljar-bench-"));
const { base, child } = await serve(data);
const browser = await chromium.launch({ executablePath: process.env["BELLJAR_CHROMIUM"] ?? "/usr/bin/chromium-headless-shell", args: ["--no-sandbox"] });
try {
  console.log(`load of this machine: ${loadavg()[0].toFixed(1)}`);
  const printed = await start(base, `import sys\nrow=lambda i: f"{i:012d} " + "the quick brown fox jumps over the lazy dog " + ("needle" if i % 1000 == 7 else "------") + " ${"x".repeat(15)}\\n"\nassert len(row(1)) == ${lineBytes}, len(row(1))\nfor at in range(0, ${lines}, 5000): sys.stdout.write("".join(map(row, range(at, at + 5000))))`);
  await ended(base, printed.id);
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  await context.addInitScript(watched, key);
  const page = await context.newPage();
  page.on("pageerror", (error) => { throw error; });
  await page.goto(`${base}/webui/sandbox/runs/${printed.id}`);
  await page.waitForFunction(() => seen.all, null, { timeout: 60_000 });
  const seen = await page.evaluate(() => globalThis.seen);
  report("100 MB: first lines", seen.first - seen.log, 300, "ms");
  report("100 MB: all indexed", seen.all - seen.log, 5000, "ms");
  const jumps = [];
  for (const line of [600_000, 1_249_990, 3, 900_001, 42]) jumps.push(await timed(page, "jump", line));
  report("100 MB: jump to a line, slowest", Math.max(...jumps), 100, "ms");
  report("100 MB: search, 1,250 hits", await timed(page, "search", "NEEDLE") - 150, 1500, "ms");
  await page.click(".log [aria-label='Regular expression']");
  await page.waitForTimeout(200);
  report("100 MB: search by expression", await timed(page, "search", "0{4}\\d+7 .*needle") - 150, 1500, "ms");
  const { worker, main } = await workerBytes(page);
  report("100 MB: memory of the page", main / 1e6, 60, "MB");
  report("100 MB: memory of the worker", worker / size, 1.3, "×");
  report("100 MB: longest task of the page", Math.max(0, ...(await page.evaluate(() => globalThis.seen.long))), 100, "ms");
  console.log(`     tasks of more than 50 ms: ${(await page.evaluate(() => globalThis.seen.tasks)).join(", ") || "none"}; the log was there at ${seen.log.toFixed(0)} ms`);
  await page.close();

  const fast = await start(base, `import sys,time\nblock=("y" * ${lineBytes - 1} + "\\n") * 2500\nt=time.monotonic()\nfor i in range(600):\n  sys.stdout.write(block); sys.stdout.flush()\n  d = t + (i + 1) * 0.01 - time.monotonic()\n  if d > 0: time.sleep(d)`);
  const live = await context.newPage();
  await live.goto(`${base}/webui/sandbox/runs/${fast.id}`);
  await live.waitForFunction(() => /[\d,]{5,} lines/.test(document.querySelector(".log .foot")?.textContent ?? ""), null, { timeout: 30_000 });
  const told = await live.evaluate(async () => {
    const count = () => Number(document.querySelector(".log .foot").textContent.replace(/ line.*/, "").replaceAll(",", ""));
    const [from, first] = [performance.now(), count()];
    let frames = 0;
    let changes = 0;
    let before = -1;
    while (performance.now() - from < 3000) {
      await new Promise(requestAnimationFrame);
      frames++;
      const now = count();
      if (now !== before) changes++;
      before = now;
    }
    const seconds = (performance.now() - from) / 1000;
    return { fps: frames / seconds, changes: changes / seconds, rate: ((count() - first) * 80) / 1e6 / seconds, long: Math.max(0, ...globalThis.seen.long), tasks: globalThis.seen.tasks, violations: globalThis.seen.violations };
  });
  report("following: rate", told.rate, 19, "MB/s", false);
  report("following: frames", told.fps, 30, "fps", false);
  report("following: longest task", told.long, 100, "ms");
  console.log(`     the lines changed ${told.changes.toFixed(0)} times a second; tasks of more than 50 ms: ${told.tasks.join(", ") || "none"}`);
  if (seen.violations.length + told.violations.length > 0) throw new Error(`violations of the policy: ${[...seen.violations, ...told.violations]}`);
} finally {
  await browser.close();
  child.kill("SIGTERM");
  await new Promise((resolve) => child.once("exit", resolve));
  rmSync(data, { recursive: true, force: true });
}
process.exit(failed ? 1 : 0);
