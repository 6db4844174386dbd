import type { CallOptions } from "./call.js";
import { route, type Connection } from "./connection.js";
import type { Template, TemplateSpec } from "./types.js";

/** The caller's templates and the shared ones. `run({ template })` and `sessions.create({ template })` use one by its name. */
export class Templates {
  readonly #connection: Connection;

  /** @internal */
  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * build builds a template, or rebuilds the existing one of that name, and returns when the build has ended. It builds nothing if nothing has
   * changed.
   */
  build(spec: TemplateSpec, options?: CallOptions): Promise<Template> {
    return this.#connection.json({ method: "POST", path: route("templates"), json: spec, once: true, longerMs: 7_200_000 }, options);
  }

  /** get returns a template. */
  get(name: string, options?: CallOptions): Promise<Template> {
    return this.#connection.json({ method: "GET", path: route("templates", name) }, options);
  }

  /** list returns the templates, sorted by name. */
  async list(options?: CallOptions): Promise<Template[]> {
    const page = await this.#connection.json<{ items: Template[] }>({ method: "GET", path: route("templates") }, options);
    return page.items;
  }

  /** remove removes a template with its files. Sessions and runs that began with it keep theirs. */
  async remove(name: string, { shared, ...options }: CallOptions & { shared?: boolean } = {}): Promise<void> {
    await this.#connection.json({ method: "DELETE", path: route("templates", name), query: { shared: shared ? "true" : undefined }, once: true }, options);
  }
}
