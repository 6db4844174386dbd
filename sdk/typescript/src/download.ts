import type { CallOptions } from "./call.js";
import { join, type Ask, type Connection, type Opened } from "./connection.js";
import { ByteStream } from "./content.js";
import { BelljarError, invalid } from "./error.js";

/** The part to download. */
export interface DownloadOptions extends CallOptions {
  /** Bytes to skip at the beginning. */
  offset?: number | undefined;
  /** Maximum number of bytes; all by default. */
  limit?: number | undefined;
}

/**
 * download requests bytes, or a part of them. A part behind the end is empty, not an error. cut is a likely reason if they break off.
 * @internal
 */
export async function download(connection: Connection, ask: Ask, options: DownloadOptions, cut?: string): Promise<ByteStream> {
  const { offset = 0, limit = Infinity } = options;
  if (!(offset >= 0) || !(limit >= 0)) throw invalid("offset", "offset and limit must not be negative");
  if (limit === 0) return new ByteStream(nothing);
  const ranged = offset > 0 || limit !== Infinity;
  const headers: Record<string, string> = { Accept: "*/*", "Accept-Encoding": "identity" };
  if (ranged) headers["Range"] = `bytes=${offset}-${limit === Infinity ? "" : offset + limit - 1}`;
  let opened: Opened;
  try {
    opened = await connection.open({ ...ask, headers }, options);
  } catch (error) {
    if (ranged && error instanceof BelljarError && error.details["field"] === "Range" && error.details["size"] !== undefined) {
      return new ByteStream(nothing);
    }
    throw error;
  }
  // A server or proxy in between may not support ranges.
  const skip = ranged && opened.answer.status !== 206 ? offset : 0;
  return new ByteStream(opened, skip, limit, cut);
}

/**
 * downloadAll reads the whole answer of download. It repeats a request that breaks off.
 * @internal
 */
export async function downloadAll(connection: Connection, ask: Ask, options: DownloadOptions): Promise<Uint8Array> {
  const call = connection.call(options);
  try {
    for (const tries = connection.tries(); ; ) {
      const stream = await download(connection, ask, { ...options, timeoutMs: undefined, signal: call.signal });
      const pieces: Uint8Array[] = [];
      try {
        for await (const piece of stream.pieces()) pieces.push(piece);
        return join(pieces);
      } catch (error) {
        await connection.wait(call, error, tries);
      }
    }
  } finally {
    call.end();
  }
}

const nothing: Opened = {
  answer: { status: 200, header: () => null, async *chunks() {}, discard() {} },
  async *chunks() {},
  close() {},
};
