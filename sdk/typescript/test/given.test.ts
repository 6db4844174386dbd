// Cancelled calls, and wrong arguments and answers.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { Belljar, CanceledError, InvalidRequestError, RuntimeUnavailableError, SandboxClient, TimeoutError, type Answer, type RunOptions, type Transport } from "belljar-sdk";
import { utf8 } from "../src/bytes.js";
import { overFetch } from "../src/transport.js";
import { frame } from "./wire.js";
import { atEnd, client, fake, json, until, within } from "./world.js";

test("a client that closes has cancelled what was given up before", async (t) => {
  const run = { id: "r7", run_id: "r7", phase: "running" };
  const cancelled: string[] = [];
  const server = await fake(t, (request, response) => {
    if (request.url!.endsWith("/cancel")) {
      cancelled.push(request.url!);
      return json(response, 200, { run_id: "r7", phase: "running" });
    }
    if (request.url!.includes("wait=30s")) return; // no answer yet
    if (request.url!.endsWith("/shell")) {
      response.writeHead(200, { "Content-Type": "text/event-stream" }).write('event: start\ndata: {"run_id":"r7"}\n\n');
      return;
    }
    json(response, 201, run);
  });
  const one = client(t, server.url);
  await assert.rejects(one.run(["sleep", "600"], { timeoutMs: 50 }), TimeoutError);
  await within("the end", one.close());
  assert.equal(cancelled.length, 1);
  const two = client(t, server.url);
  await assert.rejects(two.sessions.use("s").exec("sleep 600", { signal: AbortSignal.timeout(50) }), TimeoutError);
  await within("the end", two.close());
  assert.equal(cancelled.length, 2);
});

test("a call that ends before a server has accepted it starts nothing", async (t) => {
  const answer = (status: number, body: string, type = "application/json"): Answer => ({
    status, header: (name) => ({ "Content-Type": type, "Retry-After": "5" })[name] ?? null, chunks: async function* () { yield utf8(body); }, discard() {},
  });
  const stops = (details: object): string => JSON.stringify({ error: { code: "runtime_unavailable", message: "belljar is shutting down", details } });
  const broken = (code: string, syscall = "read"): never => {
    throw Object.assign(new Error(code), { code, syscall });
  };
  const firsts: [string, () => Answer, boolean][] = [
    ["unreachable", () => broken("ECONNREFUSED", "connect"), false],
    ["no network", () => broken("ENETUNREACH", "connect"), false],
    ["full", () => answer(429, '{"error":{"code":"rate_limited","message":"the queue is full"}}'), false],
    ["stopping", () => answer(503, stops({ retry_after_sec: 5 })), false],
    ["stopping, with the run", () => answer(503, stops({ run_id: "r7" })), true],
    ["lost", () => broken("ECONNRESET"), true],
  ];
  const calls: [string, (belljar: Belljar, signal: AbortSignal) => Promise<unknown>][] = [
    ["run", (belljar, signal) => belljar.run(["x"], { signal })],
    ["exec", (belljar, signal) => belljar.sessions.use("s").exec("x", { signal })],
  ];
  for (const [what, first, begun] of firsts) {
    for (const [name, call] of calls) {
      const stop = new AbortController();
      const sent: string[] = [];
      const transport: Transport = {
        async send({ method, url }) {
          if (method === "GET") return answer(200, "{}");
          sent.push(new URL(url).pathname.replace("/api/v1/sandbox", ""));
          if (sent.length === 1) {
            setTimeout(() => stop.abort()); // in the pause before the next try
            return first();
          }
          return url.endsWith("/shell") ? answer(200, 'event: start\ndata: {"run_id":"r7"}\n\n', "text/event-stream") : answer(200, '{"id":"r7"}');
        },
        close() {},
      };
      const belljar = client(t, "http://belljar", { transport });
      await belljar.me(); // after an answer, the client retries where nothing listens
      await assert.rejects(within("the end", call(belljar, stop.signal)), CanceledError);
      await within("the cleanup", belljar.close());
      const start = name === "run" ? "/runs" : "/sessions/s/shell";
      assert.deepEqual(sent, begun ? [start, start, "/runs/r7/cancel"] : [start], `${name}, ${what}`);
    }
  }
});

test("a command that never began has the directory of its shell, also after a broken connection", async (t) => {
  const server = await fake(t, (request, response) => {
    if (request.url!.endsWith("/sessions/s")) return json(response, 200, { session_id: "s", cwd: "/workspace/d" });
    if (request.url!.endsWith("/runs/r7")) return json(response, 200, { id: "r7", session_id: "s", phase: "killed", exit_code: null });
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    if (request.url!.endsWith("/shell")) response.write('event: start\ndata: {"run_id":"r7"}\n\n', () => response.destroy());
    else response.end('data: {"type":"event","event":"end","seq":1}\n\n');
  });
  const { cwd, exitCode } = await within("the command", client(t, server.url).sessions.use("s").exec("x"));
  assert.deepEqual([cwd, exitCode], ["/workspace/d", 125]);
});

test("a stream that is cancelled while its server says nothing is left at once", async (t) => {
  const server = await fake(t, (_, response) => void response.writeHead(200, { "Content-Type": "application/octet-stream" }).write("first"));
  const stream = await client(t, server.url, { silenceMs: Infinity }).sessions.use("s").files.open("f");
  const reader = stream.readable().getReader();
  assert.equal(Buffer.from((await reader.read()).value!).toString(), "first");
  await new Promise((resolve) => setImmediate(resolve)); // lets the reader wait for the next piece
  await within("the cancellation", reader.cancel(), 20_000);
  await until("the connection's end", () => server.sockets.size === 0);
});

test("what cannot be sent is refused before, and an empty key is none", async (t) => {
  const server = await fake(t, (_, response) => json(response, 200, { id: "r1", phase: "completed", exit_code: 0, stdout: "", stderr: "" }));
  const belljar = client(t, server.url);
  const session = belljar.sessions.use("s");
  for (const ask of [
    ...["schlüssel", "a\nb", "x".repeat(129)].map((idempotencyKey) => () => belljar.run(["true"], { idempotencyKey })),
    () => belljar.runs.start(["true"], { idempotencyKey: "ü" }),
    () => belljar.sessions.create({}, { idempotencyKey: "ü" }),
    () => session.exec("true", { idempotencyKey: "ü" }),
    () => session.files.write("a", "b", { ifMatch: "“a”" }),
    () => belljar.request("GET", "/x", { headers: { "X-Y": "a\nb" } }),
    () => session.terminal({ command: ["echo", "\ud800"] }),
    () => session.terminal({ name: "\ud800" }),
  ]) {
    await assert.rejects(async () => ask(), InvalidRequestError, String(ask));
  }
  assert.throws(() => new Belljar({ baseUrl: "http://x", source: "a\nb" }), InvalidRequestError);
  assert.equal(server.asked.length, 0);
  await belljar.run(["true"], { idempotencyKey: "" });
  assert.ok(server.asked[0]!.headers["idempotency-key"]);
});

test("the line break at the end of a key's file is no part of the key", async (t) => {
  const server = await fake(t, (_, response) => json(response, 200, {}));
  for (const options of [{ apiKey: "k\n" }, { apiKey: undefined, token: "k\n" }]) await client(t, server.url, options).request("GET", "/api/v1/sandbox/me");
  assert.deepEqual(server.asked.map(({ headers }) => headers["x-api-key"] ?? headers["authorization"]), ["k", "Bearer k"]);
});

test("the address of the API is also one of its server", async (t) => {
  const server = await fake(t, (_, response) => json(response, 200, {}));
  for (const path of ["/api/v1/sandbox", "/p/api/v1/sandbox/", "/p/"]) await client(t, server.url + path).me();
  assert.deepEqual(server.asked.map(({ path }) => path), ["/api/v1/sandbox/me", "/p/api/v1/sandbox/me", "/p/api/v1/sandbox/me"]);
});

test("what would remove another thing is not repeated", async (t) => {
  const server = await fake(t, (_, response) => void response.destroy());
  const belljar = client(t, server.url);
  for (const remove of [
    () => belljar.images.remove("x"), () => belljar.images.prune({ all: true }), () => belljar.secrets.remove("x"), () => belljar.snapshots.remove("x"),
    () => belljar.templates.remove("x"), () => belljar.volumes.remove("x"),
  ]) {
    const before = server.asked.length;
    await assert.rejects(remove(), RuntimeUnavailableError, String(remove));
    assert.equal(server.asked.length, before + 1, String(remove));
  }
});

test("a client's image is that of its sessions with a shell", async (t) => {
  const server = await fake(t, (_, response) => json(response, 201, { id: "s1" }));
  const sandboxes = new SandboxClient({ baseUrl: server.url, apiKey: "k", image: "python:3.11-slim" });
  atEnd(t, () => sandboxes.close());
  await sandboxes.createSession();
  await sandboxes.createSession({ image: "host" });
  assert.deepEqual(server.asked.map(({ body }) => (JSON.parse(body) as { image?: string }).image), ["python:3.11-slim", "host"]);
});

test("a text keeps the mark that it begins with", async (t) => {
  const text = "\ufeffmarked";
  const server = await fake(t, (_, response) => void response.writeHead(200, { "Content-Type": "application/octet-stream" }).end(text));
  const { files } = client(t, server.url).sessions.use("s");
  assert.deepEqual([await files.text("f"), await (await files.open("f")).text()], [text, text]);
});

test("a silence without end is no silence", async (t) => {
  const server = createServer().on("upgrade", (request, stream) => {
    const accept = createHash("sha1").update(request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
    stream.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    const greeting = JSON.stringify({ type: "session", session_id: "p", terminal: { terminal_id: "t1" } });
    setTimeout(() => stream.write(frame(0x81, greeting)), 200).unref();
    atEnd(t, () => stream.destroy());
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  atEnd(t, () => server.close());
  const belljar = client(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}`, { silenceMs: Infinity, maxRetries: 0 });
  const terminal = await within("the greeting", belljar.terminals.attach({ id: "t1" }));
  assert.equal(terminal.id, "t1");
  for (const [cols, rows, field] of [[0, 24, "cols"], [80, NaN, "rows"], [80.5, 24, "cols"], [80, 1001, "rows"]] as const) {
    const error = await failed(terminal.resize(cols, rows));
    assert.ok(error instanceof InvalidRequestError && error.details["field"] === field, String(error));
  }
  await terminal.resize(1, 1000);
  assert.deepEqual([terminal.state.cols, terminal.state.rows], [1, 1000]);
});

/** failed waits for a call's failure. */
function failed(call: Promise<unknown>): Promise<unknown> {
  return within("a failure", call.then(() => assert.fail("it did not fail"), (error: unknown) => error));
}

test("a receiver of output that does not return holds up no end of its call", async (t) => {
  let cancelled = 0;
  const start = 'event: start\ndata: {"run_id":"r7"}\n\nevent: chunk\ndata: {"seq":1,"stream":"stdout","encoding":"utf8","output":"a"}\n\n';
  const server = await fake(t, (request, response) => {
    if (request.url!.endsWith("/cancel")) cancelled++;
    if (request.url!.endsWith("/cancel")) return json(response, 200, { run_id: "r7", status: "canceling", phase: "running", exit_code: null });
    if (request.url!.includes("/runs?")) return json(response, 200, { id: "r7", run_id: "r7", phase: "running", exit_code: null });
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write(request.url!.endsWith("/shell") ? start : 'data: {"seq":1,"type":"stdout","encoding":"utf8","data":"a"}\n\n');
  });
  const calls: ((belljar: Belljar, options: RunOptions) => Promise<unknown>)[] = [
    (belljar, options) => belljar.run(["x"], options),
    (belljar, options) => belljar.runs.wait("r7", options),
    (belljar, { onOutput, signal }) => belljar.sessions.use("s").exec("x", { onOutput, signal }),
  ];
  for (const [i, call] of calls.entries()) {
    for (const how of ["abort", "close", "time"]) {
      if (how === "time" && i === 2) continue; // its time is that of the command
      const belljar = client(t, server.url);
      const stop = new AbortController();
      let began = false;
      let fail = (_: Error): void => {};
      const onOutput = (): Promise<void> => new Promise((_, reject) => [began, fail] = [true, reject]);
      const ends = failed(call(belljar, { onOutput, signal: stop.signal, timeoutMs: how === "time" ? 500 : undefined }));
      if (how !== "time") await until("the output", () => began);
      if (how === "abort") stop.abort();
      if (how === "close") await belljar.close();
      const error = await ends;
      assert.ok(how === "time" ? error instanceof TimeoutError : error instanceof CanceledError, `${i} ${how}: ${String(error)}`);
      fail(new Error("too late")); // no unhandled rejection
    }
  }
  await until("the cancellations", () => cancelled >= 3); // not those of wait, and none of a closed client
  await assert.rejects(client(t, server.url).run(["x"], { onOutput: () => Promise.reject(new Error("mine")) }), /^Error: mine$/);
});

test("a stream that a browser cannot send is read first, and then has the time of its size", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const sent: number[] = [];
  const transport = overFetch(async (_, init) => {
    sent.push((init!.body as Blob).size);
    t.mock.timers.tick(150_000); // more than the silence limit of a write
    if (init!.signal!.aborted) throw init!.signal!.reason;
    return new Response('{"entry":{}}', { headers: { "Content-Type": "application/json" } });
  }, false);
  const { files } = client(t, "http://belljar", { transport, patienceMs: 0 }).sessions.use("s");
  await files.write("a", new Blob(["a".repeat(4 << 20)]).stream());
  assert.deepEqual(sent, [4 << 20]);

  let left: unknown;
  const stop = new AbortController();
  const content = new ReadableStream<Uint8Array>({ pull: () => new Promise(() => void setImmediate(() => stop.abort())), cancel: (reason) => void (left = reason ?? true) });
  assert.ok((await failed(files.write("a", content, { signal: stop.signal }))) instanceof CanceledError);
  t.mock.timers.reset();
  await until("the end of the source", () => left !== undefined);
});
