// Uploads with progress: fetch does not report it, so these use XMLHttpRequest.

const watched = new WeakMap<Blob, (sent: number) => void>();

/** watchUpload calls `onsent` with the number of bytes sent, whenever a request with this body is in progress. */
export function watchUpload(body: Blob, onsent: (sent: number) => void): void {
  watched.set(body, onsent);
}

/** send is fetch, except for watched bodies. */
export const send: typeof fetch = (input, init) => {
  const body = init?.body;
  const onsent = body instanceof Blob ? watched.get(body) : undefined;
  return onsent ? upload(String(input), init!, body as Blob, onsent) : fetch(input, init);
};

function upload(url: string, init: RequestInit, body: Blob, onsent: (sent: number) => void): Promise<Response> {
  return new Promise((resolve, reject) => {
    const { signal } = init;
    const request = new XMLHttpRequest();
    const stop = () => request.abort();
    request.open(init.method ?? "PUT", url);
    for (const [name, value] of new Headers(init.headers)) request.setRequestHeader(name, value);
    request.responseType = "arraybuffer";
    request.upload.onprogress = (event) => onsent(event.loaded);
    request.onload = () => {
      const bare = request.status === 204 || request.status === 304;
      resolve(new Response(bare ? null : (request.response as ArrayBuffer), { status: request.status, headers: headersOf(request) }));
    };
    request.onerror = () => reject(new TypeError("the request failed"));
    request.onabort = () => reject(signal?.reason ?? new DOMException("the upload was stopped", "AbortError"));
    request.onloadend = () => signal?.removeEventListener("abort", stop);
    signal?.addEventListener("abort", stop, { once: true });
    if (signal?.aborted) stop();
    else request.send(body);
  });
}

function headersOf(request: XMLHttpRequest): [string, string][] {
  return request.getAllResponseHeaders().trim().split(/\r\n/).filter(Boolean).map((line) => {
    const at = line.indexOf(":");
    return [line.slice(0, at), line.slice(at + 1).trim()];
  });
}
