// WebSockets of the platform, or given by the caller: they set no headers, so that tickets let them in.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Belljar, BelljarError, type WebSocketLike } from "belljar-sdk";
import { dial } from "../src/node/websocket.js";
import type { Socket } from "../src/socket.js";
import { atEnd, client, fake, json, serve, within } from "./world.js";

/** standard is a WebSocket as browsers have it. opened gets the addresses. */
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
      this.#socket.then((socket) => socket.close(code, reason)).catch(() => {}); // it is over
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

test("who reads too slowly over one loses it, and not his memory", async (t) => {
  let tell: ((event: { data: unknown }) => void) | undefined;
  let closed = false;
  class Flood {
    onopen?: () => void;
    onclose?: (event: { code: number; reason: string }) => void;
    constructor() {
      setImmediate(() => {
        this.onopen?.();
        tell!({ data: JSON.stringify({ type: "session", session_id: "t", terminal: { terminal_id: "x", cols: 80, rows: 24 } }) });
      });
    }
    set onmessage(f: (event: { data: unknown }) => void) {
      tell = f;
    }
    send(): void {}
    close(): void {
      closed = true;
      setImmediate(() => this.onclose?.({ code: 1006, reason: "" }));
    }
  }
  const server = await fake(t, (_, response) => json(response, 200, { token: "t1.x", expires_at: "2030-01-01T00:00:00Z" }));
  const belljar = new Belljar({ baseUrl: server.url, WebSocket: Flood as unknown as WebSocketLike });
  atEnd(t, () => belljar.close());
  const terminal = await within("the terminal", belljar.terminals.attach({ id: "x" }));
  const line = JSON.stringify({ type: "output", data: "x".repeat(1 << 20) });
  for (let i = 0; i < 40 && !closed; i++) tell!({ data: line });
  assert.ok(closed);
  const kinds: string[] = [];
  for await (const event of terminal) kinds.push(event.kind);
  assert.ok(kinds.length < 20);
  assert.equal(kinds.at(-1), "overflow");
});
