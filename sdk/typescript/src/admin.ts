import type { CallOptions } from "./call.js";
import { route, type Connection } from "./connection.js";
import type { AdminPage, Approval, ApprovalDecision, ApprovalPage, DetailedRun, KeyEntry, Phase, Quota, QuotaSpec, Token, TokenSpec, UserUsage } from "./types.js";

/** A filter for the runs of all users. */
export interface AdminRunQuery {
  userId?: string | undefined;
  phase?: Phase | undefined;
  runtime?: string | undefined;
  /** The image's name, as in requests. */
  image?: string | undefined;
  sessionId?: string | undefined;
  /** `created_at`, `started_at` or `finished_at`, with `:asc` or `:desc`; `created_at:desc` by default. */
  sort?: string | undefined;
  /** Runs in a page: 50 by default, at most 200. */
  limit?: number | undefined;
  offset?: number | undefined;
}

/** All users' runs, usage and quotas. For operators. */
export class Admin {
  readonly #connection: Connection;

  /** @internal */
  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** runs lists the runs of all users, newest first by default. */
  runs(query: AdminRunQuery = {}, options?: CallOptions): Promise<AdminPage> {
    const { userId, phase, runtime, image, sessionId, sort, limit, offset } = query;
    return this.#connection.json(
      {
        method: "GET", path: route("admin", "runs"),
        query: { user_id: userId, phase, runtime, base_image: image, session_id: sessionId, sort, limit, offset },
      },
      options,
    );
  }

  /** run returns a run of any user, with its artifacts. */
  run(id: string, options?: CallOptions): Promise<DetailedRun> {
    return this.#connection.json({ method: "GET", path: route("admin", "runs", id) }, options);
  }

  /** idempotency lists the idempotency keys in force. */
  async idempotency(
    query: { endpoint?: "runs" | "sessions"; userId?: string; limit?: number; offset?: number } = {},
    options?: CallOptions,
  ): Promise<KeyEntry[]> {
    const { endpoint, userId, limit, offset } = query;
    const { items } = await this.#connection.json<{ items: KeyEntry[] | null }>(
      { method: "GET", path: route("admin", "idempotency"), query: { endpoint, user_id: userId, limit, offset } },
      options,
    );
    return items ?? [];
  }

  /** usage lists the users whose artifacts have the most bytes. */
  async usage(options: CallOptions & { limit?: number } = {}): Promise<UserUsage[]> {
    const { items } = await this.#connection.json<{ items: UserUsage[] | null }>(
      { method: "GET", path: route("admin", "usage"), query: { limit: options.limit } },
      options,
    );
    return items ?? [];
  }

  /** approvals lists the requests that wait or waited for an operator, newest first. */
  approvals(
    query: { state?: Approval["state"]; userId?: string; limit?: number; offset?: number } = {},
    options?: CallOptions,
  ): Promise<ApprovalPage> {
    const { state, userId, limit, offset } = query;
    return this.#connection.json(
      { method: "GET", path: route("admin", "approvals"), query: { state, user_id: userId, limit, offset } },
      options,
    );
  }

  /** decide approves or denies a request. {@link ConflictError} if it is already decided. */
  decide(id: string, decision: ApprovalDecision, options?: CallOptions): Promise<Approval> {
    return this.#connection.json({ method: "POST", path: route("admin", "approvals", id), json: decision, once: true }, options);
  }

  /** quota returns the quota in force for a user. */
  quota(userId: string, options?: CallOptions): Promise<Quota> {
    return this.#connection.json({ method: "GET", path: route("admin", "quotas", userId) }, options);
  }

  /** setQuota replaces a user's whole quota: 0, or a field that is left out, means no limit. */
  setQuota(userId: string, quota: QuotaSpec, options?: CallOptions): Promise<Quota> {
    return this.#connection.json({ method: "PUT", path: route("admin", "quotas", userId), json: quota }, options);
  }

  /** deleteQuota removes a user's own quota, so that the default applies. */
  async deleteQuota(userId: string, options?: CallOptions): Promise<void> {
    await this.#connection.json({ method: "DELETE", path: route("admin", "quotas", userId) }, options);
  }
}

/** The API keys. For operators. */
export class Tokens {
  readonly #connection: Connection;

  /** @internal */
  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** create creates an API key for a user. Only this answer has its `secret`. */
  create(spec: TokenSpec, options?: CallOptions): Promise<Token> {
    return this.#connection.json({ method: "POST", path: route("admin", "tokens"), json: spec, once: true }, options);
  }

  /** list returns all keys, without their secrets. */
  async list(options?: CallOptions): Promise<Token[]> {
    const { items } = await this.#connection.json<{ items: Token[] | null }>({ method: "GET", path: route("admin", "tokens") }, options);
    return items ?? [];
  }

  /** revoke revokes a key. */
  async revoke(id: string, options?: CallOptions): Promise<void> {
    await this.#connection.json({ method: "DELETE", path: route("admin", "tokens", id) }, options);
  }
}
