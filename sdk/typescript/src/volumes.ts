import type { CallOptions } from "./call.js";
import { route, type Connection } from "./connection.js";
import type { Volume } from "./types.js";

/**
 * The caller's volumes: workspaces on the server's disk. `sessions.create({ workspace: { volume } })` creates a session with one.
 */
export class Volumes {
  readonly #connection: Connection;

  /** @internal */
  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** create creates an empty volume of `mb` MiB. */
  create(spec: { name: string; mb: number }, options?: CallOptions): Promise<Volume> {
    return this.#connection.json({ method: "POST", path: route("volumes"), json: spec, once: true }, options);
  }

  /** get returns a volume. */
  get(name: string, options?: CallOptions): Promise<Volume> {
    return this.#connection.json({ method: "GET", path: route("volumes", name) }, options);
  }

  /** list returns the caller's volumes, sorted by name. */
  async list(options?: CallOptions): Promise<Volume[]> {
    const page = await this.#connection.json<{ items: Volume[] }>({ method: "GET", path: route("volumes") }, options);
    return page.items;
  }

  /** remove removes a volume with its files. */
  async remove(name: string, options?: CallOptions): Promise<void> {
    await this.#connection.json({ method: "DELETE", path: route("volumes", name), once: true }, options);
  }
}
