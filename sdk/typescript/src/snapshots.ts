import type { CallOptions } from "./call.js";
import { route, type Connection } from "./connection.js";
import { bodyOf, type ByteStream, type Content } from "./content.js";
import { download } from "./download.js";
import type { Snapshot, SnapshotPage } from "./types.js";

// Extra time for an answer with an archive.
const longerMs = 600_000;

/** The caller's snapshots: saved files of sessions. `session.snapshot()` makes one, `sessions.create({ snapshot })` makes a session from it. */
export class Snapshots {
  readonly #connection: Connection;

  /** @internal */
  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** get returns a snapshot. */
  get(id: string, options?: CallOptions): Promise<Snapshot> {
    return this.#connection.json({ method: "GET", path: route("snapshots", id) }, options);
  }

  /** list returns a page of the caller's snapshots, newest first. */
  list(query: { limit?: number; offset?: number } = {}, options?: CallOptions): Promise<SnapshotPage> {
    return this.#connection.json({ method: "GET", path: route("snapshots"), query: { limit: query.limit, offset: query.offset } }, options);
  }

  /** remove removes a snapshot. Sessions and runs that began with it keep their files. */
  async remove(id: string, options?: CallOptions): Promise<void> {
    await this.#connection.json({ method: "DELETE", path: route("snapshots", id), once: true }, options);
  }

  /** export returns a snapshot as a tar archive, whose SHA-256 is its digest. */
  export(id: string, options: CallOptions = {}): Promise<ByteStream> {
    return download(this.#connection, { method: "GET", path: route("snapshots", id, "archive"), longerMs }, options);
  }

  /** import makes a snapshot from a tar archive, which may be compressed with gzip or zstd. */
  import(archive: Content, options: CallOptions & { name?: string } = {}): Promise<Snapshot> {
    return this.#connection.json(
      {
        method: "POST", path: route("snapshots", "import"), query: { name: options.name }, body: bodyOf(archive), once: true, longerMs,
        headers: { "Content-Type": "application/x-tar" },
      },
      options,
    );
  }
}
