import type { CallOptions } from "./call.js";
import { kindOf, route, type Connection } from "./connection.js";
import { told } from "./backoff.js";
import { errorOf, RuntimeUnavailableError, type ErrorBody } from "./error.js";
import { eventsOf, objectOf } from "./events.js";
import { strangerOf } from "./failure.js";
import type { Image, ImageProgress } from "./types.js";

/** The images on the server. */
export class Images {
  readonly #connection: Connection;

  /** @internal */
  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** list is sorted by ref. */
  async list(options?: CallOptions): Promise<Image[]> {
    const { items } = await this.#connection.json<{ items: Image[] | null }>({ method: "GET", path: route("images") }, options);
    return items ?? [];
  }

  /** get returns the image of a name or digest. */
  get(ref: string, options?: CallOptions): Promise<Image> {
    return this.#connection.json({ method: "GET", path: route("images", "inspect"), query: { ref } }, options);
  }

  /** pull fetches an image from its registry and returns when it is ready. */
  async pull(
    ref: string,
    options: CallOptions & { onProgress?: (progress: ImageProgress) => void; always?: boolean; runtime?: string } = {},
  ): Promise<Image> {
    const { answer, chunks, close } = await this.#connection.open(
      {
        method: "POST", path: route("images", "pull"), json: { ref, always: options.always, runtime: options.runtime },
        headers: { Accept: "text/event-stream" },
      },
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
      throw told(error);
    }
    throw new RuntimeUnavailableError({
      code: "runtime_unavailable", message: "the connection broke while the server made the image ready",
      details: { image: ref }, hint: "it may go on there: ask for it again",
    });
  }
}
