// Helpers for tests: real servers, fake ones, and proxies that break connections.
import { once } from "node:events";
import { createServer, request, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { Belljar, type BelljarOptions } from "belljar-sdk";
import { apiKey, atEnd, binary, limitMs, patient, type Owner } from "./server.js";

export * from "./server.js";

/** local starts a private belljar, which ends with the test. */
export async function local(t: Owner, options: Omit<BelljarOptions, "baseUrl" | "socketPath"> = {}): Promise<Belljar> {
  const belljar = await Belljar.local({ binary, set: patient, startTimeoutMs: limitMs, ...options });
  atEnd(t, () => belljar.close());
  return belljar;
}

export type Handler = (request: IncomingMessage, response: ServerResponse, count: number) => void | Promise<void>;

/** A fake server and its requests. */
export interface Fake {
  url: string;
  asked: { method: string; path: string; headers: IncomingMessage["headers"]; body: string }[];
  /** The open connections. */
  sockets: Set<Socket>;
  port: number;
}

/** fake starts a server that answers with the handler; count is the number of the request, from 1. */
export async function fake(t: Owner, handler: Handler, port = 0): Promise<Fake> {
  const asked: Fake["asked"] = [];
  const server = createServer((request, response) => {
    response.on("error", () => {}); // the client may have disconnected
    const pieces: Buffer[] = [];
    request.on("error", () => {});
    request.on("data", (piece: Buffer) => pieces.push(piece));
    request.on("end", () => {
      const body = Buffer.concat(pieces).toString();
      const count = asked.push({ method: request.method!, path: request.url!, headers: request.headers, body });
      void handler(request, response, count);
    });
  });
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  atEnd(t, () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${address.port}`, asked, sockets, port: address.port };
}

/** json answers with JSON. */
export function json(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(JSON.stringify(body));
}

/** failure answers with a Belljar error. */
export function failure(response: ServerResponse, status: number, code: string, headers: Record<string, string> = {}, details = {}): void {
  json(response, status, { error: { code, message: `a ${code}`, details, hint: "do something" } }, headers);
}

/** client returns a client for a fake server, which is closed after the test. */
export function client(t: Owner, url: string, options: BelljarOptions = {}): Belljar {
  const belljar = new Belljar({ baseUrl: url, apiKey, ...options });
  atEnd(t, () => belljar.close());
  return belljar;
}

/** breaking starts a proxy that cuts every stream of events after a number of lines of output. A frame may hold many. */
export async function breaking(t: Owner, to: { url?: string; socketPath?: string }, every: number): Promise<{ url: string; cuts: () => number }> {
  let cuts = 0;
  const way = await fake(t, (incoming, outgoing) => {
    const asked = way.asked.at(-1)!;
    const place = new URL(to.url ?? "http://belljar");
    const options = { method: incoming.method, path: incoming.url, headers: incoming.headers, agent: false as const };
    const forward = request(to.socketPath ? { ...options, socketPath: to.socketPath } : { ...options, host: place.hostname, port: place.port }, (answer) => {
      outgoing.writeHead(answer.statusCode!, answer.headers);
      if (!answer.headers["content-type"]?.startsWith("text/event-stream")) {
        answer.pipe(outgoing);
        return;
      }
      let lines = 0;
      answer.on("data", (data: Buffer) => {
        let at = 0;
        for (let end = data.indexOf("\n\n"); end >= 0; end = data.indexOf("\n\n", end + 2)) {
          lines += newlines(data.subarray(at, end));
          at = end + 2;
          if (lines < every) continue;
          cuts++;
          outgoing.write(data.subarray(0, at + 7), () => outgoing.destroy()); // and the first bytes of the next one
          answer.destroy();
          return;
        }
        lines += newlines(data.subarray(at));
        outgoing.write(data);
      });
      answer.on("end", () => outgoing.end());
    });
    forward.on("error", () => outgoing.destroy());
    forward.end(asked.body);
  });
  return { url: way.url, cuts: () => cuts };
}

/** newlines counts the escaped newlines in JSON. */
function newlines(json: Buffer): number {
  return json.toString("latin1").split("\\n").length - 1;
}
