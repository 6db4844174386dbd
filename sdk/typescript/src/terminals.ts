import { wellFormed } from "./bytes.js";
import type { CallOptions } from "./call.js";
import { route, type Connection } from "./connection.js";
import type { Doorway } from "./socket.js";
import { Terminal } from "./terminal.js";
import type { TerminalState } from "./types.js";

/** The spec of a new terminal. */
export interface TerminalSpec {
  /** 80 by default; 1 to 1000. */
  cols?: number | undefined;
  /** 24 by default; 1 to 1000. */
  rows?: number | undefined;
  /** A program and its arguments; the session's shell by default. */
  command?: string[] | undefined;
  /** A name for people. */
  name?: string | undefined;
  /** Several clients may type; otherwise the terminal belongs to the client that attached last. */
  shared?: boolean | undefined;
}

/** The terminal to reattach to: its id, or its token. */
export type TerminalPlace = { id: string } | { token: string };

/** The terminals in the caller's sessions. */
export class Terminals {
  readonly #connection: Connection;
  readonly #doorway: Doorway;

  /** @internal */
  constructor(doorway: Doorway) {
    this.#connection = doorway.connection;
    this.#doorway = doorway;
  }

  /** open starts a terminal in a session and attaches to it. If the signal is aborted, it detaches, and the program continues. */
  open(sessionId: string, spec: TerminalSpec = {}, options: CallOptions = {}): Promise<Terminal> {
    const query = new URLSearchParams();
    for (const name of ["cols", "rows", "shared"] as const) {
      if (spec[name] !== undefined) query.set(name, String(spec[name]));
    }
    if (spec.name !== undefined) query.set("session_name", wellFormed("name", spec.name));
    for (const word of spec.command ?? []) query.append("command", wellFormed("command", word));
    return Terminal.attach(this.#doorway, route("sessions", sessionId, "terminals"), query, options);
  }

  /** attach reattaches to a terminal. The first event is the history, if there is any. */
  attach(place: TerminalPlace, options: CallOptions & { history?: boolean } = {}): Promise<Terminal> {
    const query = new URLSearchParams("id" in place ? { terminal_id: place.id } : { session_id: place.token });
    if (options.history === false) query.set("resume", "false");
    return Terminal.attach(this.#doorway, route("terminals"), query, options);
  }

  /** get returns a terminal. */
  get(id: string, options?: CallOptions): Promise<TerminalState> {
    return this.#connection.json({ method: "GET", path: route("terminals", id) }, options);
  }

  /** list returns a session's terminals, oldest first. */
  async list(sessionId: string, options?: CallOptions): Promise<TerminalState[]> {
    const { items } = await this.#connection.json<{ items: TerminalState[] | null }>(
      { method: "GET", path: route("sessions", sessionId, "terminals") },
      options,
    );
    return items ?? [];
  }

  /** end ends a terminal and its program. */
  async end(id: string, options?: CallOptions): Promise<void> {
    await this.#connection.json({ method: "DELETE", path: route("terminals", id), once: true }, options);
  }
}
