import type { CallOptions } from "./call.js";
import { kindOf, route, type Ask, type Connection } from "./connection.js";
import { unwrapped } from "./backoff.js";
import { bodyOf, type Content } from "./content.js";
import { errorOf, RuntimeUnavailableError, type ErrorBody } from "./error.js";
import { eventsOf, objectOf } from "./events.js";
import { strangerOf } from "./failure.js";
import type { Image, ImageProgress, ImagePrune, ImagePruned } from "./types.js";

/** The images on the server. */
export class Images {
  readonly #connection: Connection;

  /** @internal */
  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** list returns the images, sorted by ref. */
  async list(options?: CallOptions): Promise<Image[]> {
    const { items } = await this.#connection.json<{ items: Image[] | null }>({ method: "GET", path: route("images") }, options);
    return items ?? [];
  }

  /** get returns an image by its name or digest. */
  get(ref: string, options?: CallOptions): Promise<Image> {
    return this.#connection.json({ method: "GET", path: route("images", "inspect"), query: { ref } }, options);
  }

  /** pull fetches an image from its registry and returns when it is ready. */
  pull(
    ref: string,
    options: CallOptions & { onProgress?: (progress: ImageProgress) => void; always?: boolean; runtime?: string } = {},
  ): Promise<Image> {
    const json = { ref, always: options.always, runtime: options.runtime };
    return this.#follow({ method: "POST", path: route("images", "pull"), json }, ref, options);
  }

  /**
   * import imports an image from a tar archive, which may be compressed: an OCI layout, one of `docker save`, or a root file system.
   * The default name is the one in the archive. For operators.
   */
  import(archive: Content, options: CallOptions & { name?: string; onProgress?: (progress: ImageProgress) => void } = {}): Promise<Image> {
    const ask: Ask = {
      method: "POST", path: route("images", "import"), query: { name: options.name }, body: bodyOf(archive), once: true, longerMs: 600_000,
      headers: { "Content-Type": "application/x-tar" },
    };
    return this.#follow(ask, options.name ?? "", options);
  }

  /** tag adds a name to an image. If another image has the name, the name moves. For operators. */
  tag(ref: string, name: string, options?: CallOptions): Promise<Image> {
    return this.#connection.json({ method: "POST", path: route("images", "tag"), json: { ref, name } }, options);
  }

  /** remove removes a name of an image. With the last name, or by digest, it removes the image. For operators. */
  async remove(ref: string, options?: CallOptions): Promise<void> {
    await this.#connection.json({ method: "DELETE", path: route("images"), query: { ref }, once: true }, options);
  }

  /**
   * prune removes images that no sandbox uses: `all`, those unused for a time, or the least recently used ones above a total size. For
   * operators.
   */
  prune(bounds: ImagePrune, options?: CallOptions): Promise<ImagePruned> {
    return this.#connection.json({ method: "POST", path: route("images", "prune"), json: bounds, once: true, longerMs: 60_000 }, options);
  }

  // follow requests an image and reports the progress.
  async #follow(ask: Ask, ref: string, options: CallOptions & { onProgress?: (progress: ImageProgress) => void }): Promise<Image> {
    const { answer, chunks, close } = await this.#connection.open(
      { ...ask, headers: { ...ask.headers, Accept: "text/event-stream" } },
      options,
    );
    if (kindOf(answer) !== "text/event-stream") {
      close();
      throw strangerOf(answer);
    }
    try {
      for await (const { name, data } of eventsOf(chunks())) {
        if (name === "progress") options.onProgress?.(objectOf<ImageProgress>(data));
        if (name === "done") return objectOf<Image>(data);
        if (name === "error") throw errorOf(objectOf<{ error: ErrorBody }>(data).error);
      }
    } catch (error) {
      throw unwrapped(error);
    }
    throw new RuntimeUnavailableError({
      code: "runtime_unavailable", message: "the connection broke while the server made the image ready",
      details: { image: ref }, hint: "it may continue there: request it again",
    });
  }
}
