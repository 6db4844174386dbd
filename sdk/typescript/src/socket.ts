import { Passing } from "./backoff.js";
import { Watch, type Call } from "./call.js";
import type { Connection } from "./connection.js";
import { RuntimeUnavailableError } from "./error.js";
import { onNode, platform } from "./platform.js";
import type { Answer } from "./transport.js";

/** Data received over a WebSocket: a message, or its end. */
export type Received = { kind: "text"; data: string } | { kind: "binary"; data: Uint8Array } | Closed;

/** The end of a WebSocket; code 1006 is a broken connection. */
export interface Closed {
  kind: "closed";
  code: number;
  reason: string;
}

/** Socket is an open WebSocket. Only one receive may wait at a time. */
export interface Socket {
  /** receive waits for a message. After the end it returns the end again. */
  receive(): Promise<Received>;
  /** send resolves when the network has taken the message. It rejects after the end. */
  send(data: string | Uint8Array): Promise<void>;
  /** close sends a close frame, and cuts the connection if the other side does not answer in time. */
  close(code?: number, reason?: string, waitMs?: number): Promise<void>;
  /** cut ends the connection without a close frame. */
  cut(): void;
}

/** Refused is a server's HTTP answer instead of a WebSocket. */
export class Refused extends Error {
  constructor(readonly answer: Answer) {
    super(`the server answered ${answer.status} in place of a WebSocket`);
  }
}

/** Dial opens a WebSocket with headers, which only node supports. It rejects with {@link Refused} for any other answer. */
export type Dial = (url: string, headers: Record<string, string>, signal: AbortSignal) => Promise<Socket>;

/** The WebSocket class of browsers, or a replacement for it. */
export type WebSocketLike = new (url: string) => WebSocket;

/**
 * Doorway opens WebSockets: with headers where that is possible, otherwise with a ticket.
 * @internal
 */
export class Doorway {
  constructor(
    readonly connection: Connection,
    readonly use: WebSocketLike | undefined,
    readonly socketPath: string | undefined,
  ) {}

  /** open opens a WebSocket, without retries. Its error may be a Passing. */
  async open(call: Call, path: string, query: URLSearchParams): Promise<Socket> {
    const { connection } = this;
    const watch = new Watch(call, connection.options.silenceMs);
    try {
      const over = call.over();
      if (over) throw over;
      if (this.use === undefined && onNode) {
        const { dial } = await platform();
        watch.owe();
        const address = connection.url(path, query).replace(/^http/, "ws");
        const socket = await dial(this.socketPath)(address, connection.options.headers, watch.signal);
        connection.met();
        return socket;
      }
      const kind = this.use ?? globalThis.WebSocket;
      if (kind === undefined) throw noWebSocket();
      const { token } = await connection.json<{ token: string }>(
        { method: "POST", path: "/api/v1/sandbox/tickets", json: { path } },
        { signal: call.signal },
      );
      query = new URLSearchParams(query);
      query.set("token", token);
      watch.owe();
      return await StandardSocket.open(kind, connection.url(path, query).replace(/^http/, "ws"), watch.signal);
    } catch (error) {
      if (error instanceof Refused) throw await connection.failure(error.answer, watch);
      if (error instanceof Passing || (error as { code?: unknown }).code === "canceled") throw error;
      if (error instanceof Error && "hint" in error) throw error; // from the ticket's request
      throw connection.unreachable(watch, error);
    } finally {
      watch.end(false);
    }
  }
}

function noWebSocket(): RuntimeUnavailableError {
  return new RuntimeUnavailableError({
    code: "runtime_unavailable", message: "there is no WebSocket here", hint: "give one as the client's option WebSocket",
  });
}

const mostQueued = 16 << 20;

/** StandardSocket is a WebSocket of the platform. It has no flow control: a reader that is too slow loses the connection. */
class StandardSocket implements Socket {
  readonly #queue: Received[] = [];
  #queued = 0;
  #waiting: ((got: Received) => void) | undefined;
  #closed: Closed | undefined;
  readonly #over: Promise<void>;

  private constructor(readonly socket: WebSocket) {
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (typeof data === "string") this.#push({ kind: "text", data }, data.length);
      else this.#push({ kind: "binary", data: new Uint8Array(data) }, data.byteLength);
    };
    this.#over = new Promise((resolve) => {
      socket.onclose = ({ code, reason }) => {
        this.#end({ kind: "closed", code, reason });
        resolve();
      };
    });
  }

  static open(kind: WebSocketLike, url: string, signal: AbortSignal): Promise<Socket> {
    return new Promise((resolve, reject) => {
      const socket = new kind(url);
      const stop = (): void => {
        socket.close();
        reject(signal.reason);
      };
      const done = (): void => signal.removeEventListener("abort", stop);
      signal.addEventListener("abort", stop, { once: true });
      socket.onerror = () => {}; // onclose reports the error
      socket.onclose = ({ code }) => {
        done();
        reject(new Error(`the WebSocket could not be opened (${code})`));
      };
      socket.onopen = () => {
        done();
        resolve(new StandardSocket(socket));
      };
    });
  }

  #push(got: Received, size: number): void {
    if (this.#closed) return;
    if (this.#waiting) {
      this.#waiting(got);
      this.#waiting = undefined;
      return;
    }
    this.#queue.push(got);
    if ((this.#queued += size) > mostQueued) {
      this.#end({ kind: "closed", code: 4009, reason: "too slow for what comes" });
      this.cut();
    }
  }

  #end(closed: Closed): void {
    if (this.#closed) return;
    this.#closed = closed;
    this.#waiting?.(closed);
    this.#waiting = undefined;
  }

  async receive(): Promise<Received> {
    const got = this.#queue.shift();
    if (got) {
      if (got.kind !== "closed") this.#queued -= got.data.length;
      return got;
    }
    return this.#closed ?? new Promise((resolve) => (this.#waiting = resolve));
  }

  async send(data: string | Uint8Array): Promise<void> {
    if (this.#closed) throw new Error("the connection is over");
    this.socket.send(data as string);
    while (this.socket.bufferedAmount > 1 << 20 && !this.#closed) await new Promise((resolve) => setTimeout(resolve, 10));
  }

  async close(code = 1000, reason = "", waitMs = partingMs): Promise<void> {
    if (!this.#closed) this.socket.close(code, reason);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, waitMs)));
    await Promise.race([this.#over, late]);
    clearTimeout(timer);
    this.cut();
  }

  cut(): void {
    this.socket.close();
    this.#end({ kind: "closed", code: 1006, reason: "" });
  }
}

/**
 * partingMs is the time limit for the other side's close frame.
 * @internal
 */
export const partingMs = 2000;
