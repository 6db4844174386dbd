import { sleep } from "./backoff.js";
import { keyOf } from "./bytes.js";
import type { Call, CallOptions } from "./call.js";
import { route, type Connection } from "./connection.js";
import { PolicyDeniedError } from "./error.js";
import type { StartOptions } from "./runs.js";
import { Session } from "./session.js";
import type { Scope, SessionPage, SessionSpec, SessionState } from "./types.js";

/** A filter for sessions. */
export interface SessionQuery {
  /** Include sessions that have ended. */
  all?: boolean | undefined;
  /** A prefix of their scope, such as `workflow:run_123:`. */
  keyPrefix?: string | undefined;
  /** Sessions in a page: 50 by default, at most 200. */
  limit?: number | undefined;
  offset?: number | undefined;
}

/** The caller's sessions. */
export class Sessions {
  readonly #connection: Connection;
  readonly #image: string | undefined;
  readonly #make: (id: string, created?: boolean) => Session;

  /** @internal */
  constructor(connection: Connection, image: string | undefined, make: (id: string, created?: boolean) => Session) {
    this.#connection = connection;
    this.#image = image;
    this.#make = make;
  }

  /**
   * create creates a session, and returns when it can be used. If an operator must approve it first, this may take long; {@link
   * PolicyDeniedError} if it is denied, or not approved in time.
   */
  async create(spec: SessionSpec = {}, options: StartOptions = {}): Promise<Session> {
    const body = { ...spec, base_image: spec.base_image ?? (spec.template ? undefined : (this.#image ?? "host")) };
    const { session_id } = await this.#ask<SessionState>(route("sessions"), body, options);
    return this.#make(session_id, true);
  }

  /**
   * open returns the live session of a scope unchanged, or creates it; `created` is true for a new one. Concurrent calls create one
   * session. Without an image, the session has the server's default image.
   */
  async open(spec: SessionSpec & { scope: Scope }, options: StartOptions = {}): Promise<Session> {
    const body = { ...spec, base_image: spec.base_image ?? (spec.template ? undefined : this.#image) };
    const opened = await this.#ask<SessionState & { created: boolean }>(route("sessions", "open"), body, options);
    return this.#make(opened.session_id, opened.created);
  }

  /** get returns an existing session. */
  async get(id: string, options?: CallOptions): Promise<Session> {
    const state = await this.#connection.json<SessionState>({ method: "GET", path: route("sessions", id) }, options);
    return this.#make(state.session_id);
  }

  /** use returns a session by its id, without a request. */
  use(id: string): Session {
    return this.#make(id);
  }

  /** list returns the caller's sessions, newest first. */
  list(query: SessionQuery = {}, options?: CallOptions): Promise<SessionPage> {
    return this.#connection.json(
      {
        method: "GET", path: route("sessions"),
        query: { all: query.all ? "true" : undefined, key_prefix: query.keyPrefix, limit: query.limit, offset: query.offset },
      },
      options,
    );
  }

  /**
   * closeAll ends every session whose scope begins with a prefix, such as `workflow:run_123:`, and returns their ids. With
   * `retainSeconds` they end after that time; until then you can inspect them.
   */
  async closeAll(keyPrefix: string, options: CallOptions & { retainSeconds?: number } = {}): Promise<string[]> {
    const { closed } = await this.#connection.json<{ closed: string[] | null }>(
      {
        method: "POST", path: route("sessions", "close"), longerMs: 60_000,
        json: { key_prefix: keyPrefix, retain_seconds: options.retainSeconds },
      },
      options,
    );
    return closed ?? [];
  }

  /** #approved waits until an operator has approved a session and it can be used. */
  async #approved(state: SessionState, call: Call): Promise<void> {
    while (state.approval && state.state === "starting") {
      await sleep(1000, call.signal).catch(() => {}); // the next request reports the abort
      state = await this.#connection.json<SessionState>({ method: "GET", path: route("sessions", state.session_id) }, { signal: call.signal });
    }
    if (state.approval && state.state !== "active" && state.state !== "hibernated") {
      const { session_id, state: at } = state;
      throw new PolicyDeniedError({ code: "policy_denied", message: state.message ?? at, details: { session_id, state: at } });
    }
  }

  // ask requests a session and waits until it can be used, in one call: the timeout covers both.
  async #ask<T extends SessionState>(path: string, spec: SessionSpec, options: StartOptions): Promise<T> {
    const call = this.#connection.call(options);
    try {
      const state = await this.#connection.json<T>(
        {
          method: "POST", path, json: { ...spec, spec_version: spec.spec_version ?? "1.1" },
          headers: { "Idempotency-Key": keyOf(options.idempotencyKey) },
          longerMs: 1000 * (
            Math.max(spec.startup_timeout_sec ?? 0, 60) + (spec.git ? Math.max(spec.startup_timeout_sec ?? 0, 120) : 0) +
            (spec.packages ? 600 : 0) + (spec.egress?.presets?.length ? 120 : 0) +
            (spec.template ? 7200 : 0) // it may have to be rebuilt first
          ),
        },
        { signal: call.signal },
      );
      await this.#approved(state, call);
      return state;
    } finally {
      call.end();
    }
  }
}
