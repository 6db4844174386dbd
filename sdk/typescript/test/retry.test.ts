// Failures between a client and its server, and the client's reaction.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import {
  Belljar, BelljarError, CanceledError, InternalError, InvalidRequestError, NotFoundError, RateLimitedError, RuntimeUnavailableError, TimeoutError,
  type Transport, type TransportRequest,
} from "belljar-sdk";
import { utf8 } from "../src/bytes.js";
import { httpTransport } from "../src/node/http.js";
import { atEnd, client, failure, fake, json, limitMs, tempDir, type Handler, type Owner, until, within } from "./world.js";

const me = { user_id: "u", role: "user" };
const run = { id: "r1", run_id: "r1", phase: "completed", exit_code: 0, stdout: "hi\n", stderr: "" };

/** listening returns the address of a server, which ends with the test. */
async function listening(t: Owner, server: Server): Promise<string> {
  atEnd(t, () => {
    server.close();
    server.closeAllConnections();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function errorOf(promise: Promise<unknown>): Promise<BelljarError> {
  const error = await within("a failure", promise.then(() => assert.fail("it did not fail"), (e: unknown) => e));
  assert.ok(error instanceof BelljarError, String(error));
  return error;
}

test("a rate-limited client waits as long as the server requests, and repeats the same request", async (t) => {
  const server = await fake(t, (_, response, count) => {
    if (count <= 3) failure(response, 429, "rate_limited", { "Retry-After": "0" });
    else json(response, 200, run);
  });
  const result = await client(t, server.url).run({ command: ["true"] });
  assert.equal(result.stdout, "hi\n");
  assert.equal(server.asked.length, 4);
  assert.equal(new Set(server.asked.map((a) => a.headers["idempotency-key"])).size, 1);
  assert.equal(new Set(server.asked.map((a) => a.body)).size, 1);
  assert.ok(server.asked[0]!.headers["idempotency-key"]);
});

test("a storm of refusals ends in an error that says when to come back", async (t) => {
  const server = await fake(t, (_, response) => failure(response, 429, "rate_limited", { "Retry-After": "0" }));
  const error = await errorOf(client(t, server.url, { maxRetries: 5 }).me());
  assert.ok(error instanceof RateLimitedError);
  assert.deepEqual([error.status, error.retryAfter, server.asked.length], [429, 0, 6]);

  const later = await fake(t, (_, response) => failure(response, 429, "quota_exceeded", { "Retry-After": "3600", "X-Request-Id": "req-1" }));
  const told = await errorOf(client(t, later.url).me());
  assert.deepEqual([told.code, told.retryAfter, told.requestId, later.asked.length], ["quota_exceeded", 3600, "req-1", 1]);

  const never = await fake(t, (_, response) => failure(response, 503, "runtime_unavailable"));
  assert.equal((await errorOf(client(t, never.url).me())).status, 503);
  assert.equal(never.asked.length, 1); // the answer has no Retry-After
});

test("many calls in a storm all come through, each once", async (t) => {
  const seen = new Map<string, number>();
  const server = await fake(t, (request, response) => {
    const key = String(request.headers["idempotency-key"]);
    const times = (seen.get(key) ?? 0) + 1;
    seen.set(key, times);
    if (times < 3) failure(response, 429, "rate_limited", { "Retry-After": "0" });
    else json(response, 200, { ...run, id: key });
  });
  const belljar = client(t, server.url);
  const results = await within("the calls", Promise.all(Array.from({ length: 60 }, () => belljar.run(["true"]))));
  assert.equal(new Set(results.map((r) => r.id)).size, 60);
  assert.deepEqual([...seen.values()], new Array(60).fill(3));
});

test("503, connections that break and gateways that are alone are tried again", async (t) => {
  const cases: [string, Handler][] = [
    ["503", (_, r) => failure(r, 503, "runtime_unavailable", { "Retry-After": "0" }, { retry_after_sec: 0 })],
    ["502", (_, r) => void r.writeHead(502, { "Content-Type": "text/html" }).end("<h1>Bad Gateway</h1>")],
    ["504", (_, r) => void r.writeHead(504).end()],
    ["reset", (_, r) => void r.destroy()],
    ["half an answer", (_, r) => void r.writeHead(200, { "Content-Type": "application/json", "Content-Length": "900" }).write('{"user', () => r.destroy())],
  ];
  for (const [what, handler] of cases) {
    const server = await fake(t, (request, response, count) => (count < 3 ? handler(request, response, count) : json(response, 200, me)));
    assert.equal((await within(what, client(t, server.url).me())).user_id, "u", what);
    assert.equal(server.asked.length, 3, what);
  }
});

test("an archive that breaks off has a hint with the likely reason", async (t) => {
  const server = await fake(t, (_, r) => void r.writeHead(200, { "Content-Type": "application/x-tar" }).write("abc", () => r.destroy()));
  const stream = await client(t, server.url).sessions.use("s").files.archive();
  const error = await errorOf(stream.bytes());
  assert.equal(error.code, "runtime_unavailable");
  assert.match(error.message, /broke off/);
  assert.match(error.hint, /^a file in it may be unreadable or changing.*; otherwise check the address/);
});

test("what must not be done twice is not repeated, unless it was refused", async (t) => {
  const lost = await fake(t, (_, response) => void response.destroy());
  const belljar = client(t, lost.url);
  const files = belljar.sessions.use("s").files;
  await errorOf(files.rename("a", "b"));
  await errorOf(files.delete("a"));
  await errorOf(files.write("a", "x"));
  await errorOf(files.writeAll({ a: "x" }));
  await errorOf(files.upload({ a: "x" }));
  await errorOf(belljar.request("POST", "/api/v1/sandbox/admin/tokens", { json: {} }));
  await errorOf(belljar.sessions.use("s").preview(3000));
  await errorOf(belljar.sessions.use("s").revokePreview("p"));
  await errorOf(belljar.terminals.end("t"));
  assert.equal(lost.asked.length, 9);

  const busy = await fake(t, (_, response, count) => (count === 1 ? failure(response, 429, "rate_limited", { "Retry-After": "0" }) : json(response, 200, {})));
  await client(t, busy.url).sessions.use("s").files.rename("a", "b");
  assert.equal(busy.asked.length, 2);
});

test("a terminal is not made twice", async (t) => {
  const gateway = createServer((_, response) => void response.writeHead(502).end()).on("upgrade", (_, stream) => {
    tried++;
    stream.end("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
  });
  let tried = 0;
  const url = await listening(t, gateway);
  const belljar = client(t, url, { patienceMs: limitMs, maxRetries: 3 });
  await errorOf(belljar.sessions.use("s").terminal());
  assert.equal(tried, 1);
  await errorOf(belljar.terminals.attach({ id: "x" }));
  assert.equal(tried, 5);
});

test("what can be done twice is", async (t) => {
  const server = await fake(t, (_, response, count) => (count % 2 ? void response.destroy() : json(response, 200, { entry: {}, closed: [] })));
  const belljar = client(t, server.url);
  await belljar.sessions.use("s").files.write("a", "x", { overwrite: true });
  await belljar.sessions.use("s").files.mkdir("a");
  await belljar.sessions.use("s").destroy();
  await belljar.runs.cancel("r");
  await belljar.sessions.closeAll("workflow:1:");
  assert.equal(server.asked.length, 10);
  assert.deepEqual(server.asked.slice(0, 2).map((a) => a.body), ["x", "x"]);
});

test("a stream that was sent cannot be sent again", async (t) => {
  const server = await fake(t, (_, response) => void response.destroy());
  async function* content(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("a");
  }
  await errorOf(client(t, server.url).sessions.use("s").files.write("a", content(), { overwrite: true }));
  assert.equal(server.asked.length, 1);
});

test("content that cannot be read to its end is the caller's error", async (t) => {
  const server = await fake(t, (_, response) => json(response, 200, { entry: {} }));
  const gone = Object.assign(new Error("the disk is gone"), { code: "ENOENT" });
  async function* content(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("a");
    throw gone;
  }
  const broken = (): ReadableStream => new ReadableStream({ start: (controller) => controller.error(gone) });
  const { files } = client(t, server.url).sessions.use("s");
  for (const make of [content, broken]) {
    await assert.rejects(files.write("a", make()), (error) => error === gone);
    await assert.rejects(files.upload({ a: make() }), (error) => error === gone);
  }
  await assert.rejects(files.write("a", new ReadableStream({ start: (controller) => controller.enqueue(5 as never) })), InvalidRequestError);
});

test("answers that are no Belljar's say so", async (t) => {
  const cases: [string, Handler, string, number][] = [
    ["a page", (_, r) => void r.writeHead(200, { "Content-Type": "text/html" }).end("<html>"), "internal", 200],
    ["no json", (_, r) => void r.writeHead(200, { "Content-Type": "application/json" }).end("{"), "internal", 200],
    ["null", (_, r) => json(r, 200, null), "internal", 200],
    ["a redirect", (_, r) => void r.writeHead(301, { Location: "https://other.example/" }).end(), "internal", 301],
    ["another's 404", (_, r) => void r.writeHead(404, { "Content-Type": "text/plain" }).end("no"), "not_found", 404],
    ["another's 401", (_, r) => void r.writeHead(401).end(), "unauthorized", 401],
    ["an error that is none", (_, r) => json(r, 500, { error: "flat" }), "internal", 500],
    ["an error without a message", (_, r) => json(r, 400, { error: { code: "invalid_request" } }), "internal", 400],
  ];
  for (const [what, handler, code, status] of cases) {
    const server = await fake(t, handler);
    const error = await errorOf(client(t, server.url).me());
    assert.deepEqual([error.code, error.status, server.asked.length], [code, status, 1], what);
    assert.ok(error.hint, what);
  }
});

test("the server's errors come whole", async (t) => {
  const server = await fake(t, (_, response) =>
    json(response, 404, { error: { code: "not_found", message: "no run", details: { run_id: "x", new_field: [1] }, hint: "look", more: true }, other: 1 }));
  const error = await errorOf(client(t, server.url).runs.get("x"));
  assert.ok(error instanceof NotFoundError);
  assert.deepEqual([error.message, error.details, error.hint, error.status], ["no run", { run_id: "x", new_field: [1] }, "look", 404]);
});

test("an address without a server fails at once, and a key never goes elsewhere", async (t) => {
  const server = await fake(t, () => {});
  const unreachable = new Belljar({ baseUrl: "http://127.0.0.1:2", patienceMs: 10 * limitMs, maxRetries: 1000 }); // fetch itself refuses port 1
  atEnd(t, () => unreachable.close());
  const error = await errorOf(unreachable.me());
  assert.ok(error instanceof RuntimeUnavailableError);
  assert.match(error.message, /127\.0\.0\.1:2 cannot be reached: .*ECONNREFUSED/);

  const plain = await errorOf(client(t, server.url.replace("http", "https"), { patienceMs: 10 * limitMs, maxRetries: 1000 }).me());
  assert.match(plain.message, /speaks HTTP, without TLS/);

  const away = await fake(t, (_, response) => void response.writeHead(307, { Location: server.url }).end());
  await errorOf(client(t, away.url).me());
  assert.equal(server.asked.length, 0);
});

test("a server that was there and is away is waited for", async (t) => {
  const socketPath = join(tempDir(t, "/tmp"), "s");
  const listen = async (): Promise<() => void> => {
    const server = createServer((_, response) => json(response, 200, me)).listen(socketPath);
    await once(server, "listening");
    const close = (): void => {
      server.close();
      server.closeAllConnections();
    };
    atEnd(t, close);
    return close;
  };
  let asked = 0;
  const over = httpTransport(socketPath);
  const transport = { ...over, send: (r: TransportRequest) => (asked++, over.send(r)) };
  const belljar = new Belljar({ baseUrl: "http://belljar", transport, patienceMs: limitMs, maxRetries: 1000 });
  atEnd(t, () => belljar.close());
  const away = await listen();
  await belljar.me();
  away();
  const asking = Promise.all([belljar.me(), belljar.sessions.use("s").files.rename("a", "b")]); // neither has been carried out, so both are retried
  await until("some failures", () => asked > 6);
  await listen();
  assert.equal((await within("the answers", asking))[0].user_id, "u");
});

test("a first request survives a restart of its server", async (t) => {
  let asked = 0;
  const baseUrl = await listening(t, createServer((_, response) => (asked === 1 ? response.destroy() : json(response, 200, run))));
  const over = httpTransport();
  const away = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED", syscall: "connect" });
  const transport = { ...over, send: (r: TransportRequest) => (++asked === 2 || asked === 3 ? Promise.reject(away) : over.send(r)) };
  const belljar = new Belljar({ baseUrl, transport, patienceMs: limitMs });
  atEnd(t, () => belljar.close());
  assert.equal((await within("the run", belljar.run(["true"]))).run.id, run.id);
  assert.equal(asked, 4);
});

test("the patience of a call starts at its first failure", async (t) => {
  const usual = performance.now.bind(performance);
  let lateMs = 0;
  t.mock.method(performance, "now", () => usual() + lateMs);
  const breaks = (response: ServerResponse): void => {
    lateMs += 31_000;
    response.destroy();
  };
  const half = (response: ServerResponse): void => {
    response.writeHead(200, { "Content-Type": "application/octet-stream", "Content-Length": "4" }).write("da", () => breaks(response));
  };
  const silent = (response: ServerResponse): void => {
    response.writeHead(200, { "Content-Type": "text/event-stream" }).write(": nothing yet\n\n", () => breaks(response));
  };
  const cases: [string, (b: Belljar) => Promise<unknown>, (r: ServerResponse) => void, (r: ServerResponse) => void][] = [
    ["a start", (b) => b.run(["true"]), breaks, (r) => json(r, 200, run)],
    ["a read", (b) => b.me(), breaks, (r) => json(r, 200, me)],
    ["a download", async (b) => assert.equal((await b.artifacts.read("r1", "a")).length, 4), half, (r) => void r.writeHead(200).end("data")],
    ["a log", async (b) => { for await (const _ of b.runs.frames("r1")); }, silent, (r) => void r.writeHead(204).end()],
  ];
  for (const [what, ask, first, then] of cases) {
    const server = await fake(t, (_, response, count) => (count === 1 ? first(response) : then(response)));
    await within(what, ask(client(t, server.url)));
    assert.equal(server.asked.length, 2, what);
    assert.equal(new Set(server.asked.map((a) => a.headers["idempotency-key"])).size, 1, what);
  }
  const gone = await fake(t, (_, response) => breaks(response));
  await errorOf(client(t, gone.url).me());
  assert.equal(gone.asked.length, 2); // the time for retries is over
});

test("silence is given up, also within an answer", async (t) => {
  const quiet = await fake(t, () => {});
  const error = await errorOf(client(t, quiet.url, { silenceMs: 200, patienceMs: 0 }).me());
  assert.ok(error instanceof RuntimeUnavailableError);
  assert.match(String((error.cause as Error).message), /sent nothing/);

  const half = await fake(t, (_, response) => void response.writeHead(200, { "Content-Type": "application/json" }).write("{"));
  assert.match(String(((await errorOf(client(t, half.url, { silenceMs: 200, patienceMs: 0 }).me())).cause as Error).message), /sent nothing/);
});

test("an upload may take as long as it goes on", async (t) => {
  const goesOn = 100_000; // below the silence limit, but the sum of all pauses far exceeds it
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let told = 0;
  const transport: Transport = {
    async send({ body, signal, onSent }) {
      if (body instanceof ReadableStream) for await (const _ of body) t.mock.timers.tick(goesOn);
      for (let i = 0; i < told; i++, onSent!()) t.mock.timers.tick(goesOn);
      t.mock.timers.tick(goesOn);
      if (signal.aborted) throw signal.reason;
      return { status: 200, header: () => "application/json", chunks: async function* () { yield utf8('{"entry":{}}'); }, discard() {} };
    },
    close() {},
  };
  const { files } = client(t, "http://belljar", { transport, patienceMs: 0 }).sessions.use("s");
  let left = 5;
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
    t.mock.timers.tick(10 * goesOn); // a slow source
    if (left-- > 0) controller.enqueue(Buffer.from("a"));
    else controller.close();
  };
  await files.write("a", new ReadableStream({ pull }, { highWaterMark: 0 }));
  told = 5;
  await files.write("a", Buffer.from("a"));
  told = 0;
  await files.write("a", Buffer.alloc(1 << 20)).then(() => t.mock.timers.tick(goesOn));
  t.mock.timers.reset();

  // This package's own transport on Node reports its progress, waits at least its timeout, and stops with the server.
  const over = httpTransport();
  atEnd(t, () => over.close());
  const server = await fake(t, (_, response) => json(response, 200, me));
  const signal = new AbortController().signal;
  for (const body of [Buffer.alloc(1 << 20, "a"), new Blob(["a".repeat(1 << 20)])]) {
    const answer = await over.send({ method: "PUT", url: server.url, headers: {}, body, signal, onSent: () => told++ });
    answer.discard();
    assert.deepEqual([server.asked.at(-1)!.body.length, server.asked.at(-1)!.headers["content-length"]], [1 << 20, String(1 << 20)]);
  }
  assert.ok(told >= 8, String(told));
});

test("an upload that is refused in its midst ends", async (t) => {
  const url = await listening(t, createServer((_, response) => failure(response, 413, "payload_too_large")));
  let left = false;
  const content = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(100_000)), cancel: () => void (left = true) });
  const { files } = client(t, url).sessions.use("s");
  assert.equal((await errorOf(files.write("a", content))).code, "payload_too_large");
  await until("its end", () => left);
});

test("an upload that ends cancels a source that waits", async (t) => {
  for (const ends of ["abort", "cut"]) {
    let reached = (): void => {};
    const arrived = new Promise<void>((resolve) => (reached = resolve));
    const url = await listening(t, createServer((request) => void request.once("data", () => (ends === "cut" ? request.destroy() : reached()))));
    let left = (): void => {};
    const leaving = new Promise<void>((resolve) => (left = resolve));
    let pulls = 0;
    const pull = (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> | void => {
      if (pulls++ === 0) return controller.enqueue(new Uint8Array(10));
      return new Promise(() => {});
    };
    const { files } = client(t, url).sessions.use("s");
    const stop = new AbortController();
    const sending = errorOf(files.write("a", new ReadableStream({ pull, cancel: left }, { highWaterMark: 0 }), { signal: stop.signal }));
    if (ends === "abort") {
      await within("the first piece", arrived);
      stop.abort();
    }
    assert.ok((await sending) instanceof (ends === "abort" ? CanceledError : RuntimeUnavailableError), ends);
    await within("its end", leaving);
  }
});

test("what waits for a build or an interpreter is given the time", async (t) => {
  let waits = 0;
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const transport: Transport = {
    async send({ signal }) {
      t.mock.timers.tick(waits);
      if (signal.aborted) throw signal.reason;
      return { status: 200, header: () => "application/json", chunks: async function* () { yield utf8('{"session_id":"s","name":"c"}'); }, discard() {} };
    },
    close() {},
  };
  const { sessions } = client(t, "http://belljar", { transport, patienceMs: 0 });
  waits = 7_200_000;
  await sessions.create({ template: "large" });
  waits = 110_000;
  await sessions.use("s").createContext({ language: "python" });
  await sessions.use("s").restartContext("python");
  waits = 130_000;
  await assert.rejects(sessions.use("s").restartContext("python"), RuntimeUnavailableError);
});

test("on node no fetch stands between, which would give an answer five minutes", async (t) => {
  const server = await fake(t, (_, response) => json(response, 200, me));
  t.mock.method(globalThis, "fetch", () => Promise.reject(new Error("this was fetch")));
  assert.equal((await client(t, server.url).me()).user_id, "u");
});

test("calls end by their signal, by their time and with the client", async (t) => {
  const quiet = await fake(t, () => {});
  const belljar = client(t, quiet.url);
  const stop = new AbortController();
  const given = errorOf(belljar.me({ signal: stop.signal }));
  await until("the request", () => quiet.asked.length === 1);
  stop.abort(new Error("enough"));
  const error = await given;
  assert.ok(error instanceof CanceledError);
  assert.match(String(error.cause), /enough/);

  assert.ok((await errorOf(belljar.me({ signal: AbortSignal.abort() }))) instanceof CanceledError);
  assert.equal(quiet.asked.length, 1);
  assert.ok((await errorOf(belljar.me({ timeoutMs: 50 }))) instanceof TimeoutError);
  assert.ok((await errorOf(belljar.me({ signal: AbortSignal.timeout(50) }))) instanceof TimeoutError);

  const busy = await fake(t, (_, response) => failure(response, 429, "rate_limited", { "Retry-After": "20" }));
  const waiting = client(t, busy.url);
  const pausing = errorOf(waiting.me({ timeoutMs: 100 }));
  assert.ok((await pausing) instanceof TimeoutError);
  const before = busy.asked.length; // on a busy machine the first request may never have been sent
  const left = errorOf(waiting.me());
  await until("the second request", () => busy.asked.length > before);
  await waiting.close();
  assert.match((await left).message, /closed/);
  assert.match((await errorOf(waiting.me())).message, /closed/);
});

test("an abandoned run is cancelled, also before its id is known", async (t) => {
  let cancelled = "";
  const server = await fake(t, (request, response) => {
    if (request.url!.endsWith("/cancel")) {
      cancelled = request.url!;
      return json(response, 200, { run_id: "r7", status: "canceling", phase: "running", exit_code: null });
    }
    if (request.url!.includes("wait=30s")) return; // no answer yet
    json(response, 200, { ...run, id: "r7", phase: "running", stdout: undefined });
  });
  for (const closes of [false, true]) {
    const belljar = client(t, server.url);
    const stop = new AbortController();
    server.asked.length = 0;
    const running = errorOf(belljar.run(["sleep", "600"], { signal: stop.signal }));
    await until("the request", () => server.asked.length === 1);
    cancelled = "";
    stop.abort();
    if (closes) await belljar.close(); // at once: it waits for the cancellation
    else await until("the cancellation", () => cancelled !== "");
    assert.equal(cancelled, "/api/v1/sandbox/runs/r7/cancel");
    assert.ok((await running) instanceof CanceledError);
    assert.equal(server.asked[1]!.headers["idempotency-key"], server.asked[0]!.headers["idempotency-key"]);
    assert.equal(server.asked[1]!.body, server.asked[0]!.body);
  }
});

test("a session that waits for its approval ends with the call's time", async (t) => {
  const session = { session_id: "s1", state: "starting", created: true, approval: { state: "pending" } };
  const server = await fake(t, (_, response) => json(response, 200, session));
  const belljar = client(t, server.url);
  assert.ok((await errorOf(belljar.sessions.create({}, { timeoutMs: 1500 }))) instanceof TimeoutError);
  assert.ok(server.asked.length > 1);
  const scope = { namespace: "workflow", id: "w" } as const;
  assert.ok((await errorOf(belljar.sessions.open({ scope }, { timeoutMs: 50 }))) instanceof TimeoutError);
});

test("results that an answer leaves out are fetched", async (t) => {
  const [first, last] = ["1", "2"].map((text, i) => ({ type: i ? "value" : "display", data: { "text/plain": text } }));
  const server = await fake(t, (request, response) => {
    if (request.url!.endsWith("/runs/r1/results")) return json(response, 200, { items: [first, last], truncated: false });
    json(response, 200, { ...run, results: [first], results_truncated: true });
  });
  const result = await client(t, server.url).sessions.use("s1").code("1; 2");
  assert.equal(result.results.length, 2);
  assert.equal(result.value, "2");
});

test("answers of a newer server are taken, with what is not known yet", async (t) => {
  const server = await fake(t, (_, response) => json(response, 200, { ...run, phase: "completed", brand_new: { a: 1 }, stdout_encoding: "utf8" }, { "Content-Type": "application/json; charset=utf-8; x=y" }));
  const result = await client(t, server.url).run(["true"]);
  assert.deepEqual([result.ok, (result.run as unknown as { brand_new: unknown }).brand_new], [true, { a: 1 }]);
});

test("options that make no sense are refused at once", async () => {
  for (const options of [
    { baseUrl: "127.0.0.1:8080" }, { baseUrl: "ftp://x" }, { baseUrl: "http://u:secret@x" }, { baseUrl: "u:secret@x" }, { baseUrl: "http://u:secret@x:port" },
    { baseUrl: "http://x/?a=b" }, { baseUrl: "unix:" }, { baseUrl: "" },
    { baseUrl: "http://x", apiKey: "a\nb" }, { baseUrl: "http://x", apiKey: "a", token: "b" }, { baseUrl: "http://x", token: "é" },
  ]) {
    assert.throws(() => new Belljar(options), (error: unknown) => error instanceof InvalidRequestError && !error.message.includes("secret"), JSON.stringify(options));
  }
  process.env["BELLJAR_SERVER"] = "http://127.0.0.1:1/other";
  try {
    const placeOf = (b: Belljar): { baseUrl: string; name: string } => (b as unknown as { connection: { options: { baseUrl: string; name: string } } }).connection.options;
    assert.deepEqual([placeOf(new Belljar({ socketPath: "/s" })).name, placeOf(new Belljar({ socketPath: "/s" })).baseUrl], ["/s", "http://belljar"]);
    assert.equal(placeOf(new Belljar()).baseUrl, "http://127.0.0.1:1/other");
  } finally {
    delete process.env["BELLJAR_SERVER"];
  }
  const belljar = new Belljar({ baseUrl: "http://127.0.0.1:1/base/" });
  for (const id of ["", ".", ".."]) {
    await assert.rejects(async () => belljar.runs.get(id), InvalidRequestError);
    await assert.rejects(async () => belljar.artifacts.read("r", `x/${id}/../y`), InvalidRequestError);
  }
  for (const line of ["echo hi", undefined, null] as never[]) {
    await assert.rejects(belljar.run(line), InvalidRequestError);
    await assert.rejects(belljar.sessions.use("s").start(line), InvalidRequestError);
  }
  await assert.rejects(belljar.sessions.use("s").files.upload({ "\ud800": "half" }), InvalidRequestError);
  await belljar.close();
});

test("paths and ids are escaped, and stay below the address", async (t) => {
  const server = await fake(t, (_, response) => json(response, 200, {}));
  const belljar = client(t, server.url + "/proxy/", { source: "x y" });
  await belljar.runs.get("a/b?c#d%2e ü");
  await belljar.artifacts.read("r", "./out//é?.txt").catch(() => {});
  await belljar.sessions.use("s").files.list();
  assert.deepEqual(server.asked.map((a) => a.path), [
    "/proxy/api/v1/sandbox/runs/a%2Fb%3Fc%23d%252e%20%C3%BC",
    "/proxy/api/v1/sandbox/runs/r/artifacts/out/%C3%A9%3F.txt",
    "/proxy/api/v1/sandbox/sessions/s/fs/list",
  ]);
  assert.equal(server.asked[0]!.headers["x-belljar-source"], "x y");
});

test("an answer without end is not gathered for ever", async (t) => {
  const server = await fake(t, (_, response) => {
    response.writeHead(200, { "Content-Type": "application/json" });
    const piece = Buffer.alloc(1 << 20, " ");
    const more = (): void => {
      while (!response.destroyed && response.write(piece));
      response.once("drain", more);
    };
    more();
  });
  const error = await errorOf(client(t, server.url).me());
  assert.ok(error instanceof InternalError);
  assert.match(error.message, /more than/);
});

test("an untrusted certificate is reported at once, with a hint", async (t) => {
  let asked = 0;
  for (const code of ["SELF_SIGNED_CERT_IN_CHAIN", "UNABLE_TO_VERIFY_LEAF_SIGNATURE", "ERR_TLS_CERT_ALTNAME_INVALID"]) {
    const send = (): Promise<Response> => {
      asked++;
      return Promise.reject(new TypeError("fetch failed", { cause: Object.assign(new Error("unable to verify"), { code }) }));
    };
    const error = await errorOf(client(t, "https://belljar.example", { fetch: send }).me());
    assert.ok(error instanceof RuntimeUnavailableError);
    assert.match(error.message, new RegExp(code));
    assert.match(error.hint, /NODE_EXTRA_CA_CERTS/);
  }
  assert.equal(asked, 3);
});

test("an id or a text that cannot be written is refused", async (t) => {
  const server = await fake(t, (_, response) => json(response, 200, run));
  const belljar = client(t, server.url);
  const { files } = belljar.sessions.use("s");
  const half = "half \ud83d";
  for (const ask of [
    ...["", "..", half].map((id) => async () => belljar.runs.get(id)),
    async () => files.write("a", half), async () => files.write(half, "a"), async () => files.writeAll({ a: half }), async () => files.upload({ a: half }),
    async () => belljar.run({ command: ["true"], files: { a: half } }),
  ]) {
    assert.ok((await errorOf(ask())) instanceof InvalidRequestError, String(ask));
  }
  assert.equal(server.asked.length, 0);
});

test("one signal is for any number of calls, and nothing of them is left on it", async (t) => {
  const server = await fake(t, () => {}); // never answers
  const belljar = client(t, server.url);
  const stop = new AbortController();
  const listeners = new Set<unknown>();
  const { addEventListener: add, removeEventListener: remove } = stop.signal;
  stop.signal.addEventListener = (type: string, heard: never, options?: AddEventListenerOptions) => {
    listeners.add(heard);
    add.call(stop.signal, type, heard, options);
  };
  stop.signal.removeEventListener = (type: string, heard: never) => {
    listeners.delete(heard);
    remove.call(stop.signal, type, heard);
  };
  const short = Array.from({ length: 20 }, () => errorOf(belljar.me({ signal: stop.signal, timeoutMs: 1 })));
  for (const error of await Promise.all(short)) assert.ok(error instanceof TimeoutError);
  assert.equal(listeners.size, 0);
  const long = Array.from({ length: 20 }, () => errorOf(belljar.me({ signal: stop.signal })));
  assert.equal(listeners.size, 1);
  await until("they are asked", () => server.asked.length >= 20);
  stop.abort();
  for (const error of await Promise.all(long)) assert.ok(error instanceof CanceledError);
  assert.equal(listeners.size, 0);
  assert.ok((await errorOf(belljar.me({ signal: stop.signal }))) instanceof CanceledError);
});
