/** The body of a request. A stream can be sent only once, so such a request is never repeated. */
export type RequestBody = string | Uint8Array | Blob | ReadableStream<Uint8Array>;

/** One HTTP request, ready to be sent. */
export interface TransportRequest {
  method: string;
  /** The whole address. */
  url: string;
  headers: Record<string, string>;
  body?: RequestBody | undefined;
  /** Aborts the request, and the reading of its answer. */
  signal: AbortSignal;
  /** A transport with progress reports calls this after each part of the body that it has sent: the server is not silent then. `left` are the bytes that follow without a report. */
  onSent?: ((left?: number) => void) | undefined;
}

/** An answer whose headers have arrived. The caller must read or discard its body. */
export interface Answer {
  status: number;
  header(name: string): string | null;
  /** The body as it arrives. Leaving the loop early closes the connection. */
  chunks(): AsyncIterable<Uint8Array>;
  discard(): void;
}

/** Transport carries requests: over `fetch`, or over node's HTTP. Provide your own for tests or other networks. */
export interface Transport {
  /** send rejects only if there is no answer. It does not follow redirects: the API key is for this server. */
  send(request: TransportRequest): Promise<Answer>;
  close(): void;
}

const isNode = typeof process !== "undefined" && typeof process.versions?.node === "string";

/** fetchTransport carries requests with a `fetch`; by default with the global one. */
export function fetchTransport(use: typeof fetch = globalThis.fetch.bind(globalThis)): Transport {
  return overFetch(use, isNode);
}

/**
 * overFetch carries requests with a `fetch`, which can send streams or not.
 * @internal
 */
export function overFetch(use: typeof fetch, streams: boolean): Transport {
  return {
    async send({ method, url, headers, body, signal, onSent }) {
      const init: RequestInit & { duplex?: "half" } = {
        method,
        headers,
        signal,
        redirect: "manual",
        credentials: "omit",
        cache: "no-store",
      };
      if (body instanceof ReadableStream) {
        // Browsers send streams over HTTP/2 only, so the body is read into memory there.
        if (streams) init.body = body;
        else {
          const whole = await new Response(body.pipeThrough(new TransformStream<Uint8Array, Uint8Array>(), { signal })).blob();
          onSent?.(whole.size);
          init.body = whole;
        }
        init.duplex = "half";
      } else if (body !== undefined) {
        init.body = body as BodyInit;
      }
      const response = await use(url, init);
      return {
        status: response.status,
        header: (name) => response.headers.get(name),
        chunks: () => chunksOf(response.body),
        discard: () => void response.body?.cancel().catch(() => {}), // the body is discarded in any case
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
    if (!whole) void reader.cancel().catch(() => {}); // a broken body can no longer be cancelled
  }
}
