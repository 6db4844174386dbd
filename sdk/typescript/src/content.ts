import { bytesOf, textOf } from "./bytes.js";
import type { Opened } from "./connection.js";
import { join } from "./connection.js";
import { unwrapped } from "./backoff.js";
import { invalid, RuntimeUnavailableError } from "./error.js";
import type { RequestBody } from "./transport.js";

/** The contents of a file to write. A stream can be read only once, so such a write is not repeated, and throws the stream's own error. */
export type Content = string | Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

/**
 * bodyOf returns content as a request body.
 * @internal
 */
export function bodyOf(content: Content): RequestBody {
  if (content instanceof ArrayBuffer) return new Uint8Array(content);
  if (typeof content === "string") return bytesOf(content); // fetch would add a charset
  if (content instanceof Uint8Array || content instanceof Blob || content instanceof ReadableStream) return content;
  if (typeof content?.[Symbol.asyncIterator] !== "function") throw invalid("content", "content is neither text nor bytes");
  const pieces = content[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await pieces.next();
      if (done) controller.close();
      else controller.enqueue(bytesOf(value));
    },
    async cancel(reason) {
      await pieces.return?.(reason);
    },
  });
}

/**
 * blobOf reads content into a Blob.
 * @internal
 */
export async function blobOf(content: Content): Promise<Blob> {
  return content instanceof Blob ? content : new Response(bodyOf(content) as BodyInit).blob();
}

/** Bytes from the server: loop over them, or read them whole. Either works once. */
export class ByteStream implements AsyncIterable<Uint8Array> {
  readonly #opened: Opened;
  readonly #skip: number;
  readonly #limit: number;
  readonly #cut: string;

  /**
   * cut is a likely reason if the bytes break off.
   * @internal
   */
  constructor(opened: Opened, skip = 0, limit = Infinity, cut = "") {
    this.#cut = cut;
    this.#opened = opened;
    this.#skip = skip;
    this.#limit = limit;
  }

  /** Leaving the loop early closes the connection. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      yield* this.pieces();
    } catch (thrown) {
      const error = unwrapped(thrown);
      if (!this.#cut || !(error instanceof RuntimeUnavailableError)) throw error;
      const { code, message, details, hint, cause } = error;
      throw new RuntimeUnavailableError({ code, message, details, hint: `${this.#cut}; otherwise ${hint}` }, { cause });
    }
  }

  /** @internal */
  async *pieces(): AsyncGenerator<Uint8Array, void, undefined> {
    let skip = this.#skip;
    let left = this.#limit;
    for await (const chunk of this.#opened.chunks()) {
      const piece = chunk.subarray(skip, Math.min(skip + left, chunk.length));
      skip = Math.max(skip - chunk.length, 0);
      left -= piece.length;
      if (piece.length > 0) yield piece;
      if (left === 0) return;
    }
  }

  /** bytes returns all of the bytes. */
  async bytes(): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [];
    for await (const piece of this) pieces.push(piece);
    return join(pieces);
  }

  /** text returns the whole content as UTF-8. */
  async text(): Promise<string> {
    return textOf(await this.bytes());
  }

  /** readable returns the bytes as a web stream. */
  readable(): ReadableStream<Uint8Array> {
    const pieces = this[Symbol.asyncIterator]();
    return new ReadableStream<Uint8Array>({
      async pull(controller) {
        const { done, value } = await pieces.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: async () => {
        this.#opened.close(); // ends a pending read
        await pieces.return().catch(() => {});
      },
    });
  }

  /** cancel drops the unread rest. */
  cancel(): void {
    this.#opened.close();
  }
}
