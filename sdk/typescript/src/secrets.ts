import type { CallOptions } from "./call.js";
import { route, type Connection } from "./connection.js";
import type { SecretSpec, StoredSecret } from "./types.js";

/**
 * The caller's stored secrets, which runs and sessions name: `secrets: { TOKEN: { from: "TOKEN" } }`. The server never returns the
 * values.
 */
export class Secrets {
  readonly #connection: Connection;

  /** @internal */
  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** set stores a secret, or replaces the value of an existing one. `shared` lets every user use it (operators only). */
  set(name: string, spec: SecretSpec, options?: CallOptions): Promise<StoredSecret> {
    return this.#connection.json({ method: "PUT", path: route("secrets", name), json: spec }, options);
  }

  /** list returns the caller's own secrets and the shared ones, without their values. */
  async list(options?: CallOptions): Promise<StoredSecret[]> {
    const { items } = await this.#connection.json<{ items: StoredSecret[] | null }>({ method: "GET", path: route("secrets") }, options);
    return items ?? [];
  }

  /** remove removes a secret. Runs and sessions that already use it keep it. */
  async remove(name: string, options: CallOptions & { shared?: boolean } = {}): Promise<void> {
    const query = options.shared ? { shared: true } : {};
    await this.#connection.json({ method: "DELETE", path: route("secrets", name), query, once: true }, options);
  }
}
