import { newKey } from "./bytes.js";
import { Belljar, type BelljarOptions } from "./belljar.js";
import type { CallOptions } from "./call.js";
import type { Session } from "./session.js";

/** A session in the shell API. */
export interface SessionInfo {
  id: string;
  image: string;
  status: "running" | "expired" | "destroyed" | "crashed" | (string & {});
  /** The shell's directory after the last command. */
  cwd: string;
  createdAt: Date;
  expiresAt: Date;
  lastActivity: Date;
}

interface Wire {
  id: string;
  image: string;
  status: string;
  cwd: string;
  created_at: string;
  expires_at: string;
  last_activity: string;
}

const page = 200;

/**
 * A small client for sandboxes with a shell. Their workspaces allow programs to be executed. {@link Belljar} is the full
 * client.
 */
export class SandboxClient {
  /** The full client of the same server. */
  readonly belljar: Belljar;
  readonly #image: string | undefined;

  constructor(options: BelljarOptions = {}) {
    this.belljar = new Belljar(options);
    this.#image = options.image;
  }

  /** createSession makes a new session. It ends after `ttlSeconds` without use. */
  async createSession(options: { image?: string; ttlSeconds?: number } & CallOptions = {}): Promise<Session> {
    const { id } = await this.belljar.connection.json<Wire>(
      {
        method: "POST", path: "/v1/sessions", json: { image: options.image ?? this.#image, ttl_seconds: options.ttlSeconds },
        headers: { "Idempotency-Key": newKey() }, longerMs: 60_000,
      },
      options,
    );
    return this.belljar.sessions.use(id);
  }

  /** getSession returns an existing session. */
  getSession(id: string, options?: CallOptions): Promise<Session> {
    return this.belljar.sessions.get(id, options);
  }

  /** listSessions returns all sessions, newest first, including those that have ended. */
  async listSessions(options?: CallOptions): Promise<SessionInfo[]> {
    const all = new Map<string, SessionInfo>(); // by id: a new session shifts the pages
    for (let offset = 0; ; offset += page) {
      const list = await this.belljar.connection.json<Wire[]>(
        { method: "GET", path: "/v1/sessions", query: { limit: page, offset } },
        options,
      );
      for (const wire of list) all.set(wire.id, infoOf(wire));
      if (list.length < page) return [...all.values()];
    }
  }

  /** close ends every call. Sessions continue. */
  close(): Promise<void> {
    return this.belljar.close();
  }
}

function infoOf(wire: Wire): SessionInfo {
  return {
    id: wire.id, image: wire.image, status: wire.status, cwd: wire.cwd, createdAt: new Date(wire.created_at),
    expiresAt: new Date(wire.expires_at), lastActivity: new Date(wire.last_activity),
  };
}
