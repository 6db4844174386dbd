import assert from "node:assert/strict";
import { test } from "node:test";
import { follow, Sight, type Connection } from "../../src/log/feed.ts";
import { markOf, type RawFrame } from "../../src/log/marks.ts";

const out = (seq: number): RawFrame => ({ type: "stdout", seq, encoding: "utf8", data: `${seq}\n` });
const end = (seq: number): RawFrame => ({ type: "event", event: "end", seq, data: {} });

/** An answer with frames, in pieces of three bytes. It breaks at the end unless `whole`. */
function answer(frames: unknown[], whole: boolean): Response {
  const bytes = new TextEncoder().encode(frames.map((frame) => JSON.stringify(frame) + "\n").join(""));
  let at = 0;
  return new Response(new ReadableStream({
    pull(to) {
      if (at < bytes.length) to.enqueue(bytes.slice(at, (at += 3)));
      else if (whole) to.close();
      else to.error(new TypeError("network error"));
    },
  }));
}

async function read(answers: ((from: number) => Response | Error)[]): Promise<{ seqs: number[]; events: string[]; states: string[]; asked: number[]; last: Connection }> {
  const seen = { seqs: [] as number[], events: [] as string[], states: [] as string[], asked: [] as number[], last: { state: "opening" } as Connection };
  await follow({
    url: "http://server/logs", headers: {}, signal: new AbortController().signal, sight: new Sight(), pause: () => undefined, wait: async () => {},
    async fetch(url) {
      const from = Number(new URL(String(url)).searchParams.get("from_seq"));
      seen.asked.push(from);
      const next = answers.shift();
      assert.ok(next, "asked too often");
      const got = next(from);
      if (got instanceof Error) throw got;
      return got;
    },
    frame(frame) {
      if (frame.type === "stdout") seen.seqs.push(frame.seq);
      else seen.events.push(frame.event ?? frame.type);
    },
    changed(now) {
      seen.states.push(now.state);
      seen.last = now;
    },
  });
  return seen;
}

test("a whole log", async () => {
  const seen = await read([() => answer([out(1), out(2), end(3)], true)]);
  assert.deepEqual(seen.seqs, [1, 2]);
  assert.deepEqual(seen.states, ["opening", "open", "ended"]);
});

test("a connection that breaks is opened again behind what has come: no gap, no duplicate", async () => {
  const seen = await read([
    () => answer([out(1), out(2)], false),
    () => new TypeError("refused"),
    () => answer([out(2), out(3), out(3)], false), // a server that repeats itself
    () => answer([out(4), end(5)], true),
  ]);
  assert.deepEqual(seen.seqs, [1, 2, 3, 4]);
  assert.deepEqual(seen.asked, [1, 3, 3, 4]);
  assert.deepEqual(seen.states, ["opening", "open", "waiting", "waiting", "open", "waiting", "open", "ended"]);
});

test("lost frames are reported", async () => {
  const seen = await read([() => answer([{ type: "event", event: "resume", seq: 10, data: { lost_count: 9 } }, out(10), end(11)], true)]);
  assert.deepEqual([seen.seqs, seen.events], [[10], ["resume", "end"]]);
});

test("a log that is shorter than what came before is followed from its end", async () => {
  const seen = await read([
    () => answer([out(1), out(2), out(3)], false),
    () => answer([{ type: "event", event: "resume", seq: 2, data: { lost_count: 0 } }, out(2), end(3)], true),
    () => new Response("{}", { status: 404 }), // ends a reader that has missed the end
  ]);
  assert.deepEqual([seen.seqs, seen.events, seen.asked], [[1, 2, 3, 2], ["end"], [1, 4]]);
});

test("a gap without a word is asked for again, once, and then seen", async () => {
  const seen = await read([() => answer([out(1), out(4)], true), () => answer([out(4), end(5)], true)]);
  assert.deepEqual([seen.seqs, seen.events, seen.asked], [[1, 4], ["resume", "end"], [1, 2]]);
});

test("refusals end it, and a server that is busy does not", async () => {
  const refuse = (status: number) => () => new Response(JSON.stringify({ error: { code: "x", message: "no" } }), { status });
  const seen = await read([refuse(503), refuse(429), refuse(404)]);
  assert.deepEqual(seen.last, { state: "refused", status: 404, body: { error: { code: "x", message: "no" } } });
});

test("a log that the server has no more of is whole", async () => {
  const seen = await read([() => answer([out(1)], true), () => answer([], true), () => answer([], true)]);
  assert.deepEqual([seen.seqs, seen.last.state], [[1], "ended"]);
});

test("a proxy that keeps an answer back until it is whole: the log is asked for in parts", async () => {
  const asked: string[] = [];
  const seqs: number[] = [];
  const waits: number[] = [];
  const parts = [[out(1)], [], [], [out(2), end(3)]];
  let last = "";
  await follow({
    url: "http://server/logs", headers: {}, signal: new AbortController().signal, sight: new Sight(), pause: () => undefined, silenceMs: 20,
    wait: async (ms) => void waits.push(ms),
    fetch: (url, init) => {
      const query = new URL(String(url)).searchParams;
      asked.push(`${query.get("follow")} ${query.get("from_seq")}`);
      if (query.get("follow") === "false") return Promise.resolve(answer(parts.shift()!, true));
      return new Promise((_, reject) => init!.signal!.addEventListener("abort", () => reject(new TypeError("aborted"))));
    },
    frame: (frame) => { if (frame.type === "stdout") seqs.push(frame.seq); },
    changed: ({ state }) => (last = state),
  });
  assert.deepEqual([asked, seqs, last, waits.slice(1)], [["true 1", "false 1", "false 2", "false 2", "false 2"], [1, 2], "ended", [1000, 1000, 1000]]);
});

test("a hidden page has the log up to now, keeps no connection, and continues when it is visible", async () => {
  // The page is visible again once the feed waits for that.
  class Shown extends Sight {
    override addEventListener(...listener: Parameters<EventTarget["addEventListener"]>) {
      super.addEventListener(...listener);
      if (this.hidden) queueMicrotask(() => this.set(false));
    }
  }
  const sight = new Shown();
  const asked: string[] = [];
  const seqs: number[] = [];
  const states: string[] = [];
  // A followed log that sends frames and stays open, like that of a running program.
  const open = (frames: RawFrame[], sent: () => void, signal: AbortSignal) => new Response(new ReadableStream({
    start(to) {
      to.enqueue(new TextEncoder().encode(frames.map((frame) => JSON.stringify(frame) + "\n").join("")));
      signal.addEventListener("abort", () => to.error(new DOMException("aborted", "AbortError")));
    },
    pull: () => sent(),
  }, { highWaterMark: 1 }));
  const answers: ((signal: AbortSignal) => Response)[] = [
    (signal) => open([out(1), out(2)], () => sight.set(true), signal),
    () => answer([out(3)], true),
    () => answer([out(4), end(5)], true),
  ];
  await follow({
    url: "http://server/logs", headers: {}, signal: new AbortController().signal, sight, pause: () => undefined, wait: async () => assert.fail("no connection broke"),
    fetch(url, init) {
      const query = new URL(String(url)).searchParams;
      asked.push(`${query.get("follow")} ${query.get("from_seq")}`);
      return Promise.resolve(answers.shift()!(init!.signal!));
    },
    frame: (frame) => { if (frame.type === "stdout") seqs.push(frame.seq); },
    changed: ({ state }) => void states.push(state),
  });
  assert.deepEqual([asked, seqs], [["true 1", "false 3", "true 4"], [1, 2, 3, 4]]);
  assert.deepEqual([states.at(-1), states.includes("waiting")], ["ended", false]);
});

test("a hidden page whose answer stalls follows again when it is visible", async () => {
  const sight = new Sight();
  sight.set(true);
  const asked: (string | null)[] = [];
  await follow({
    url: "http://server/logs", headers: {}, signal: new AbortController().signal, sight, silenceMs: 20, pause: () => undefined, wait: async () => sight.set(false),
    fetch(url, init) {
      asked.push(new URL(String(url)).searchParams.get("follow"));
      if (asked.length > 1) return Promise.resolve(answer([out(1), end(2)], true));
      return new Promise((_, fail) => init!.signal!.addEventListener("abort", () => fail(new DOMException("aborted", "AbortError"))));
    },
    frame: () => undefined, changed: () => undefined,
  });
  assert.deepEqual(asked, ["false", "true"]);
});

test("notes borrow a seq", async () => {
  const seen = await read([() => answer([out(1), { type: "event", event: "stdin_closed", seq: 1, data: { reason: "client" } }, out(2), end(3)], true)]);
  assert.deepEqual([seen.seqs, seen.events], [[1, 2], ["stdin_closed", "end"]]);
});

test("marks", () => {
  const mark = (event: string, data: Record<string, unknown>) => markOf({ type: "event", seq: 1, event, data })?.text;
  assert.match(markOf({ type: "truncated", seq: 1, reason: "log_cap" })!.text, /reached its limit/);
  assert.equal(mark("egress", { allowed: false, host: "a.example", port: 443, reason: "no_match" }), "Network: a.example:443 was denied (no_match)");
  assert.equal(mark("egress", { allowed: true, host: "a.example", rule: "*.example" }), "Network: connected to a.example, which the rule *.example allows");
  assert.match(mark("resume", { lost_count: 3 })!, /^3 frames/);
  assert.match(mark("stdin_closed", { reason: "stdin_bps" })!, /too fast/);
  assert.match(mark("stdin_closed", { reason: "connection_lost" })!, /shutting down/);
  assert.equal(mark("packages", { tool: "pip", text: "<b>x" }), "pip: <b>x");
  assert.equal(mark("phase", {}), undefined);
  assert.equal(markOf({ type: "heartbeat", seq: 4 }), undefined);
});
