import type { CallOptions } from "./call.js";
import { route, type Connection } from "./connection.js";
import type { SecretSpec, StoredSecret } from "./types.js";

/** The secrets that the caller stores. Runs and sessions refer to them: `secrets: { TOKEN: { from: "TOKEN" } }`. No answer has a value. */
export class Secrets {
  readonly #connection: Connection;

  /** @internal */
  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** set stores a secret, or gives an existing one a new value. `shared` is for operators: every user may use it. */
  set(name: string, spec: SecretSpec, options?: CallOptions): Promise<StoredSecret> {
    return this.#connection.json({ method: "PUT", path: route("secrets", name), json: spec }, options);
  }

  /** list returns the caller's own secrets and the shared ones, without their values. */
  async list(options?: CallOptions): Promise<StoredSecret[]> {
    const { items } = await this.#connection.json<{ items: StoredSecret[] | null }>({ method: "GET", path: route("secrets") }, options);
    return items ?? [];
  }

  /** remove removes a secret. Existing runs and sessions with it keep it. */
  async remove(name: string, options: CallOptions & { shared?: boolean } = {}): Promise<void> {
    const query = options.shared ? { shared: true } : {};
    await this.#connection.json({ method: "DELETE", path: route("secrets", name), query, once: true }, options);
  }
}
