/** What a request sends. A stream can be sent once, so that such a request is never repeated. */
export type RequestBody = string | Uint8Array | Blob | ReadableStream<Uint8Array>;

/** One HTTP request, ready to be sent. */
export interface TransportRequest {
  method: string;
  /** The whole address. */
  url: string;
  headers: Record<string, string>;
  body?: RequestBody | undefined;
  /** Ends the request, and the reading of its answer. */
  signal: AbortSignal;
  /** Called whenever a part of the body has been sent, by a transport that hears of it: the server is not silent then. */
  onSent?: (() => void) | undefined;
}

/** An answer whose headers have come. Either its body is read or it is discarded. */
export interface Answer {
  status: number;
  header(name: string): string | null;
  /** The body as it comes. Leaving the loop early closes the connection. */
  chunks(): AsyncIterable<Uint8Array>;
  discard(): void;
}

/** Transport carries requests: over `fetch`, or over node's HTTP. Give your own to test or to go other ways. */
export interface Transport {
  /** send rejects only if there is no answer. Redirects are not followed: the API key is for this server. */
  send(request: TransportRequest): Promise<Answer>;
  close(): void;
}

const isNode = typeof process !== "undefined" && typeof process.versions?.node === "string";

/** fetchTransport carries requests with a `fetch`; the global one if none is given. */
export function fetchTransport(use: typeof fetch = globalThis.fetch.bind(globalThis)): Transport {
  return {
    async send({ method, url, headers, body, signal }) {
      const init: RequestInit & { duplex?: "half" } = {
        method,
        headers,
        signal,
        redirect: "manual",
        credentials: "omit",
        cache: "no-store",
      };
      if (body instanceof ReadableStream) {
        // Browsers send streams over HTTP/2 only, so there they are gathered.
        init.body = isNode ? body : await new Response(body).blob();
        init.duplex = "half";
      } else if (body !== undefined) {
        init.body = body as BodyInit;
      }
      const response = await use(url, init);
      return {
        status: response.status,
        header: (name) => response.headers.get(name),
        chunks: () => chunksOf(response.body),
        discard: () => void response.body?.cancel().catch(() => {}), // it is over either way
      };
    },
    close() {},
  };
}

async function* chunksOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Uint8Array> {
  if (!body) return;
  const reader = body.getReader();
  let whole = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        whole = true;
        return;
      }
      yield value;
    }
  } finally {
    if (!whole) void reader.cancel().catch(() => {}); // a body that broke off can no longer be cancelled
  }
}
