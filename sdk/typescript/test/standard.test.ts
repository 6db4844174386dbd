// The platform's WebSockets, or the caller's: they cannot set headers, so tickets authenticate them.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { BelljarError, type Terminal, type WebSocketLike } from "belljar-sdk";
import { dial } from "../src/node/websocket.js";
import type { Socket } from "../src/socket.js";
import { client, fake, json, serve, within } from "./world.js";

/** standard returns a WebSocket class like the browsers'. opened collects the addresses. */
function standard(opened: string[]): WebSocketLike {
  class Standard {
    binaryType = "";
    bufferedAmount = 0;
    onopen?: () => void;
    onmessage?: (event: { data: unknown }) => void;
    onclose?: (event: { code: number; reason: string }) => void;
    onerror?: () => void;
    #socket: Promise<Socket>;

    constructor(url: string) {
      opened.push(url);
      this.#socket = dial()(url, {}, new AbortController().signal);
      this.#socket.then(
        async (socket) => {
          this.onopen?.();
          for (;;) {
            const got = await socket.receive();
            if (got.kind === "closed") return this.onclose?.(got);
            this.onmessage?.({ data: got.kind === "text" ? got.data : Uint8Array.from(got.data).buffer });
          }
        },
        () => {
          this.onerror?.();
          this.onclose?.({ code: 1006, reason: "" });
        },
      );
    }

    send(data: string | Uint8Array): void {
      void this.#socket.then((socket) => socket.send(data));
    }

    close(code?: number, reason?: string): void {
      this.#socket.then((socket) => socket.close(code, reason)).catch(() => {}); // it is closed in any case
    }
  }
  return Standard as unknown as WebSocketLike;
}

test("terminals and input over a WebSocket that sets no headers", async (t) => {
  const server = await serve(t);
  const opened: string[] = [];
  const belljar = client(t, server.url, { apiKey: server.apiKey, WebSocket: standard(opened) });
  const session = await belljar.sessions.create();
  const terminal = await within("the terminal", session.terminal({ cols: 90, command: ["sh", "-c", "read -r l; stty size; echo got $l; exit 5"] }));
  await terminal.write("typed\n");
  let screen = "";
  for await (const event of terminal) if (event.kind === "output") screen += event.text;
  assert.ok(screen.includes("24 90") && screen.includes("got typed"), screen);
  assert.equal(terminal.exitCode, 5);

  const run = await belljar.runs.start({ command: ["cat"], interactive: true });
  const input = await belljar.runs.input(run.id);
  await input.write("hello\n");
  await input.end();
  assert.equal((await within("the end", belljar.runs.wait(run.id))).stdout, "hello\n");
  assert.equal(await input.closed, "client");

  assert.equal(opened.length, 2);
  for (const url of opened) {
    assert.match(url, /[?&]token=t1\./);
    assert.ok(!url.includes(server.apiKey));
  }
});

test("a WebSocket that cannot be opened is an error", async (t) => {
  const server = await fake(t, (request, response) => {
    if (request.url!.endsWith("/tickets")) json(response, 200, { token: "t1.x", expires_at: "2030-01-01T00:00:00Z" });
    else response.writeHead(404).end();
  });
  const belljar = client(t, server.url, { WebSocket: standard([]), maxRetries: 1 });
  const error = await within("a failure", belljar.terminals.attach({ id: "x" }).catch((e: unknown) => e));
  assert.ok(error instanceof BelljarError && error.code === "runtime_unavailable", String(error));
});

/** told attaches a client to a fake terminal. `tell` sends a message from the server; `sent` has the client's messages. */
async function told(t: TestContext): Promise<{ terminal: Terminal; tell: (message: object) => void; sent: unknown[]; closed: () => boolean }> {
  let listener: (event: { data: unknown }) => void;
  let closed = false;
  const tell = (message: object): void => listener({ data: JSON.stringify(message) });
  const sent: unknown[] = [];
  class Told {
    onopen?: () => void;
    onclose?: (event: { code: number; reason: string }) => void;
    bufferedAmount = 0;
    constructor() {
      setImmediate(() => {
        this.onopen?.();
        tell({ type: "session", session_id: "t", terminal: { terminal_id: "x", cols: 80, rows: 24 } });
      });
    }
    set onmessage(f: (event: { data: unknown }) => void) {
      listener = f;
    }
    send(data: unknown): void {
      sent.push(data);
    }
    close(): void {
      closed = true;
      setImmediate(() => this.onclose?.({ code: 1006, reason: "" }));
    }
  }
  const server = await fake(t, (_, response) => json(response, 200, { token: "t1.x", expires_at: "2030-01-01T00:00:00Z" }));
  const belljar = client(t, server.url, { WebSocket: Told as unknown as WebSocketLike });
  const terminal = await within("the terminal", belljar.terminals.attach({ id: "x" }));
  return { terminal, tell, sent, closed: () => closed };
}

test("a terminal whose program does not read is quiet, and not gone", async (t) => {
  const { terminal, tell, sent, closed } = await told(t);
  t.mock.timers.enable({ apis: ["setInterval"] });
  const next = terminal.next();
  await terminal.write("typed");
  for (let i = 0; i < 10; i++) t.mock.timers.tick(15_000);
  assert.deepEqual(sent.slice(1), ['{"type":"ping"}']);
  assert.equal(closed(), false);
  tell({ type: "pong" });
  tell({ type: "output", data: "read" });
  assert.equal((await next)?.kind, "output");

  const broken = assert.rejects(within("the end", terminal.next()), /broke/); // the server owes only a pong
  for (let i = 0; i < 2; i++) t.mock.timers.tick(15_000);
  assert.equal(sent.length, 3);
  assert.equal(closed(), true);
  await broken;
});

test("who reads too slowly over one loses it, and not his memory", async (t) => {
  const { terminal, tell, closed } = await told(t);
  for (let i = 0; i < 40 && !closed(); i++) tell({ type: "output", data: "x".repeat(1 << 20) });
  assert.ok(closed());
  const kinds: string[] = [];
  for await (const event of terminal) kinds.push(event.kind);
  assert.ok(kinds.length < 20);
  assert.equal(kinds.at(-1), "overflow");
});
