import { createHash, randomBytes } from "node:crypto";
import { request, type IncomingMessage } from "node:http";
import { request as secureRequest } from "node:https";
import type { Duplex } from "node:stream";
import { partingMs, Refused, type Closed, type Dial, type Received, type Socket } from "../socket.js";
import { answerOf } from "./http.js";
import { encodeFrame, FrameReader, opcode, ProtocolError } from "./wsframe.js";

const guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; // RFC 6455 §1.3

/** dial opens WebSockets with headers, over a unix socket if a path is given. */
export function dial(socketPath?: string): Dial {
  return (url, headers, signal) =>
    new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const to = new URL(url.replace(/^ws/, "http"));
      const key = randomBytes(16).toString("base64");
      const asked = (to.protocol === "https:" ? secureRequest : request)(to, {
        agent: false, // no shared connection
        ...(socketPath ? { socketPath } : {}),
        headers: { ...headers, Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key },
      });
      const stop = (): void => void asked.destroy(new Error("the request was cancelled", { cause: signal.reason }));
      signal.addEventListener("abort", stop, { once: true });
      const done = (): void => signal.removeEventListener("abort", stop);
      asked.once("error", (error) => {
        done();
        reject(error);
      });
      asked.once("response", (message) => {
        done();
        reject(new Refused(answerOf(message)));
      });
      asked.once("upgrade", (message, stream, head) => {
        done();
        const wrong = wrongUpgrade(message, key);
        if (wrong) {
          stream.destroy();
          return reject(new Error(wrong));
        }
        resolve(new NodeSocket(stream, head));
      });
      asked.end();
    });
}

// wrongUpgrade returns the defect of an answer with status 101; undefined if there is none.
function wrongUpgrade({ headers }: IncomingMessage, key: string): string | undefined {
  const accept = createHash("sha1").update(key + guid).digest("base64");
  if (headers.upgrade?.toLowerCase() !== "websocket") return "the server switched to something other than a WebSocket";
  if (headers["sec-websocket-accept"] !== accept) return "the server's answer is not to our handshake";
  if (headers["sec-websocket-extensions"] || headers["sec-websocket-protocol"]) return "the server chose what was not offered";
  return undefined;
}

const mostQueued = 1 << 20;

/** NodeSocket is a WebSocket over a stream. It reads no more data until the received data is taken. */
class NodeSocket implements Socket {
  readonly #queue: { got: Received; size: number }[] = [];
  #queued = 0; // bytes in the queue
  #waiting: ((got: Received) => void) | undefined;
  #closed: Closed | undefined;
  #closing = false; // our close frame is sent
  #parting: ReturnType<typeof setTimeout> | undefined;
  readonly #over: Promise<void>;

  constructor(
    readonly stream: Duplex,
    head: Uint8Array,
  ) {
    const reader = new FrameReader();
    const feed = (data: Uint8Array): void => {
      try {
        for (const frame of reader.read(data)) this.#take(frame.opcode, frame.payload);
      } catch (error) {
        const code = error instanceof ProtocolError ? error.code : 1002;
        this.#goodbye(code, error instanceof Error ? error.message : "");
        this.#end({ kind: "closed", code: 1006, reason: error instanceof Error ? error.message : "" });
        stream.destroy();
      }
    };
    this.#over = new Promise((resolve) =>
      stream.once("close", () => {
        clearTimeout(this.#parting);
        resolve();
      }),
    );
    stream.on("data", feed);
    stream.on("error", (error) => this.#end({ kind: "closed", code: 1006, reason: error.message }));
    stream.on("end", () => stream.end());
    stream.on("close", () => this.#end({ kind: "closed", code: 1006, reason: "the connection broke" }));
    if (head.length > 0) feed(head);
  }

  #take(kind: number, payload: Uint8Array): void {
    switch (kind) {
      case opcode.ping:
        if (!this.#closing) this.#write(encodeFrame(opcode.pong, payload));
        return;
      case opcode.pong:
        return;
      case opcode.close: {
        const { code, reason } = closeOf(payload);
        this.#goodbye(code === 1005 ? 1000 : code, "");
        this.#end({ kind: "closed", code, reason });
        this.stream.end();
        this.#part();
        return;
      }
    }
    const got: Received =
      kind === opcode.text ? { kind: "text", data: textOf(payload) } : { kind: "binary", data: payload };
    if (this.#waiting) {
      this.#waiting(got);
      this.#waiting = undefined;
      return;
    }
    this.#queue.push({ got, size: payload.length });
    if ((this.#queued += payload.length) > mostQueued) this.stream.pause();
  }

  #end(closed: Closed): void {
    if (this.#closed) return;
    this.#closed = closed;
    this.#waiting?.(closed);
    this.#waiting = undefined;
  }

  async receive(): Promise<Received> {
    const first = this.#queue.shift();
    if (first) {
      this.#queued -= first.size;
      if (this.#queued <= mostQueued / 2) this.stream.resume();
      return first.got;
    }
    return this.#closed ?? new Promise((resolve) => (this.#waiting = resolve));
  }

  async send(data: string | Uint8Array): Promise<void> {
    if (this.#closed || this.#closing) throw new Error("the connection is over");
    const payload = typeof data === "string" ? Buffer.from(data) : data;
    await this.#write(encodeFrame(typeof data === "string" ? opcode.text : opcode.binary, payload));
    if (this.stream.destroyed) throw new Error("the connection is over");
  }

  // write resolves when the kernel has the frame, or the connection is over.
  #write(frame: Uint8Array): Promise<void> {
    if (this.stream.write(frame)) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        this.stream.off("drain", done).off("close", done);
        resolve();
      };
      this.stream.on("drain", done).on("close", done);
    });
  }

  #goodbye(code: number, reason: string): void {
    if (this.#closing || this.stream.destroyed) return;
    this.#closing = true;
    const text = Buffer.from(reason).subarray(0, 120);
    void this.#write(encodeFrame(opcode.close, Buffer.concat([Buffer.from([code >> 8, code & 255]), text])));
  }

  async close(code = 1000, reason = "", waitMs = partingMs): Promise<void> {
    this.#goodbye(code, reason);
    this.#queue.length = 0; // there is no reader, and the answer is behind this data
    this.#queued = 0;
    this.stream.resume();
    this.#part(waitMs);
    await this.#over;
  }

  // part destroys the stream if the other side does not close it within waitMs.
  #part(waitMs = partingMs): void {
    if (!this.stream.closed) this.#parting ??= setTimeout(() => this.stream.destroy(), waitMs);
  }

  cut(): void {
    this.#end({ kind: "closed", code: 1006, reason: "" });
    this.stream.destroy();
  }
}

function closeOf(payload: Uint8Array): { code: number; reason: string } {
  if (payload.length === 0) return { code: 1005, reason: "" };
  const code = payload.length < 2 ? 0 : payload[0]! * 256 + payload[1]!;
  const known = (code >= 1000 && code <= 1014 && ![1004, 1005, 1006].includes(code)) || (code >= 3000 && code <= 4999);
  if (!known) throw new ProtocolError(1002, "the server closed without a proper code");
  return { code, reason: textOf(payload.subarray(2)) };
}

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function textOf(payload: Uint8Array): string {
  try {
    return strict.decode(payload);
  } catch {
    throw new ProtocolError(1007, "the server sent text that is not UTF-8");
  }
}
