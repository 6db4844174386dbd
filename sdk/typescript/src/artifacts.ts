import type { CallOptions } from "./call.js";
import { route, type Ask, type Connection } from "./connection.js";
import type { ByteStream } from "./content.js";
import { download, downloadAll, type DownloadOptions } from "./download.js";
import { invalid } from "./error.js";
import type { Artifact } from "./types.js";

/** The artifacts of finished runs: the files that matched `capture_patterns`. */
export class Artifacts {
  readonly #connection: Connection;

  /** @internal */
  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** list returns a run's artifacts, sorted by path. It is empty until the run has ended. */
  async list(runId: string, options?: CallOptions): Promise<Artifact[]> {
    const { items } = await this.#connection.json<{ items: Artifact[] | null }>(
      { method: "GET", path: route("runs", runId, "artifacts") },
      options,
    );
    return items ?? [];
  }

  /** read returns the bytes of an artifact, or a part of them. */
  async read(runId: string, path: string, options: DownloadOptions = {}): Promise<Uint8Array> {
    return downloadAll(this.#connection, ask(runId, path), options);
  }

  /** url returns a link that downloads an artifact, for an `<a download>` in a page. It works once, within a minute. */
  url(runId: string, path: string, options?: CallOptions): Promise<string> {
    return this.#connection.ticketUrl(ask(runId, path).path, {}, options);
  }

  /** open opens an artifact of any size, to read as it arrives. */
  async open(runId: string, path: string, options: DownloadOptions = {}): Promise<ByteStream> {
    return download(this.#connection, ask(runId, path), options);
  }
}

function ask(runId: string, path: string): Ask {
  const parts = path.replace(/^\/workspace\//, "").split("/").filter((part) => part !== "" && part !== ".");
  if (parts.length === 0 || parts.includes("..")) throw invalid("path", `"${path}" is no path of an artifact`);
  return { method: "GET", path: route("runs", runId, "artifacts", ...parts) };
}
