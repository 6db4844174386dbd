import { Agent, request as send, type IncomingMessage } from "node:http";
import type { Answer, RequestBody, Transport, TransportRequest } from "../transport.js";

/** unixTransport carries requests over a unix socket, whose connections it keeps for the next request. */
export function unixTransport(socketPath: string): Transport {
  const agent = new Agent({ keepAlive: true });
  return {
    send: (request) => exchange(agent, socketPath, request),
    close: () => agent.destroy(),
  };
}

async function exchange(agent: Agent, socketPath: string, request: TransportRequest): Promise<Answer> {
  const body = request.body instanceof Blob ? new Uint8Array(await request.body.arrayBuffer()) : request.body;
  const headers = { ...request.headers };
  if (request.body instanceof Blob && request.body.type) headers["Content-Type"] ??= request.body.type;
  if (typeof body === "string" || body instanceof Uint8Array) headers["Content-Length"] = String(Buffer.byteLength(body));
  return new Promise((resolve, reject) => {
    const { signal, method } = request;
    if (signal.aborted) return reject(signal.reason);
    const url = new URL(request.url);
    const sent = send({ agent, socketPath, method, headers, host: url.host, path: url.pathname + url.search });
    const stop = (): void => void sent.destroy(asError(signal.reason));
    signal.addEventListener("abort", stop, { once: true });
    sent.once("close", () => signal.removeEventListener("abort", stop));
    sent.on("error", reject);
    sent.once("response", (message) => resolve(answerOf(message)));
    feed(sent, body).catch((error: unknown) => sent.destroy(asError(error)));
  });
}

async function feed(sent: ReturnType<typeof send>, body: Exclude<RequestBody, Blob> | undefined): Promise<void> {
  if (!(body instanceof ReadableStream)) {
    sent.end(body);
    return;
  }
  let unheard = 0; // bytes for which nothing else was listened to
  for await (const chunk of body) {
    if (sent.destroyed) return;
    if (!sent.write(chunk)) await drained(sent);
    if ((unheard += chunk.length) < 1 << 20) continue;
    unheard = 0; // a source that never waits would let nothing else happen: no answer, no abort
    await new Promise((resolve) => setImmediate(resolve));
  }
  sent.end();
}

function drained(sent: ReturnType<typeof send>): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      sent.off("drain", done).off("close", done);
      resolve();
    };
    sent.on("drain", done).on("close", done);
  });
}

/** answerOf is a message of node as an answer. */
export function answerOf(message: IncomingMessage): Answer {
  return {
    status: message.statusCode ?? 0,
    header: (name) => {
      const value = message.headers[name.toLowerCase()];
      return Array.isArray(value) ? value.join(", ") : (value ?? null);
    },
    chunks: () => message,
    discard: () => void message.on("error", () => {}).destroy(), // nobody wants it
  };
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error("the request was cancelled", { cause: reason });
}
