import { Agent, request as plain, type ClientRequest, type IncomingMessage } from "node:http";
import { Agent as SecureAgent, request as secure } from "node:https";
import type { Answer, Transport, TransportRequest } from "../transport.js";

const pieceBytes = 256 << 10;
const kept = { keepAlive: true, timeout: 30_000 }; // a server may close connections that are idle for longer

/**
 * httpTransport carries requests, over a unix socket if a path is given, and reuses connections. fetch would wait for an answer for at most five
 * minutes, and does not report the progress of an upload.
 */
export function httpTransport(socketPath?: string): Transport {
  const agents = { "http:": new Agent(kept), "https:": new SecureAgent(kept) };
  return {
    send: (request) => exchange(agents, socketPath, request),
    close: () => Object.values(agents).forEach((agent) => agent.destroy()),
  };
}

function exchange(agents: Record<"http:" | "https:", Agent>, socketPath: string | undefined, request: TransportRequest): Promise<Answer> {
  const { body, method, signal } = request;
  const headers = { ...request.headers };
  if (body instanceof Blob && body.type) headers["Content-Type"] ??= body.type;
  if (body !== undefined && !(body instanceof ReadableStream)) headers["Content-Length"] = String(body instanceof Blob ? body.size : Buffer.byteLength(body));
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const url = new URL(request.url);
    const protocol = url.protocol as "http:" | "https:";
    const send = protocol === "https:" ? secure : plain;
    const sent = send(url, { agent: agents[protocol], ...(socketPath ? { socketPath } : {}), method, headers });
    const stop = (): void => void sent.destroy(asError(signal.reason));
    signal.addEventListener("abort", stop, { once: true });
    sent.once("close", () => signal.removeEventListener("abort", stop));
    sent.on("error", reject);
    sent.once("response", (message) => {
      message.once("end", () => sent.writableEnded || sent.destroy()); // the server does not read the rest of the body
      resolve(answerOf(message));
    });
    feed(sent, request).catch((error: unknown) => sent.destroy(asError(error)));
  });
}

async function feed(sent: ClientRequest, { body, onSent }: TransportRequest): Promise<void> {
  if (body === undefined || typeof body === "string") {
    sent.end(body);
    return;
  }
  const chunks = body instanceof Uint8Array ? [body] : piecesOf(sent, body instanceof Blob ? body.stream() : body);
  let unheard = 0; // bytes sent since the last pause for other events
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += pieceBytes) {
      if (sent.destroyed) return;
      if (!sent.write(chunk.subarray(at, at + pieceBytes))) await drained(sent);
      onSent?.();
    }
    if ((unheard += chunk.length) < 1 << 20) continue;
    unheard = 0; // a source that never waits would block everything else: answers, aborts
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (!sent.destroyed) sent.end();
}

// piecesOf reads a stream, and cancels it when the request ends: for a source that waits, too.
async function* piecesOf(sent: ClientRequest, stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  sent.once("close", () => void reader.cancel().catch(() => {})); // of no effect at the stream's end
  for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
}

function drained(sent: ClientRequest): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      sent.off("drain", done).off("close", done);
      resolve();
    };
    sent.on("drain", done).on("close", done);
  });
}

/** answerOf wraps a message of node as an answer. */
export function answerOf(message: IncomingMessage): Answer {
  return {
    status: message.statusCode ?? 0,
    header: (name) => {
      const value = message.headers[name.toLowerCase()];
      return Array.isArray(value) ? value.join(", ") : (value ?? null);
    },
    chunks: () => message,
    discard: () => void message.on("error", () => {}).destroy(), // there is no reader
  };
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error("the request was cancelled", { cause: reason });
}
