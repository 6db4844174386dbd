// A log in the page: the worker that keeps the bytes, and the visible rows.
import { apiBase, failureOf, token } from "../client.svelte.ts";
import type { Connection } from "./feed.ts";
import type { Row } from "./row.ts";
import type { Query } from "./search.ts";
import { startWorker } from "./start.ts";
import type { Ask, Message, Stream } from "./wire.ts";
import workerUrl from "./worker.ts?worker&url";

/** logPath returns the API's path of a run's log. */
export const logPath = (runId: string): string => `/api/v1/sandbox/runs/${encodeURIComponent(runId)}/logs`;

let spare: Worker | undefined;
let early: { runId: string; log: Log } | undefined;

/** prepare starts the worker of the next log. That takes longer than the start of a run. */
export function prepare(): void {
  if (spare) return;
  spare = startWorker(workerUrl, "log");
  spare.onerror = () => (spare = undefined);
}

/** openEarly opens the log of a run that has just started, before its page is shown. */
export function openEarly(runId: string, sessionId: string | undefined): void {
  early?.log.close();
  early = { runId, log: new Log(runId, sessionId) };
}

/** openLog opens the log of a run. In a session, it links files of the workspace. */
export function openLog(runId: string, sessionId: string | undefined): Log {
  const log = early?.runId === runId ? early.log : new Log(runId, sessionId);
  if (early?.log === log) early = undefined;
  return log;
}

/** A receiver of events: for a result with its line. */
export type Listener = (event: string, data?: string) => void;

export class Log {
  /** The number of rows in the chosen stream. */
  rows = $state(0);
  lines = $state(0);
  size = $state(0);
  connection: Connection = $state.raw({ state: "opening" });
  /** The last rows from the worker. */
  window: { first: number; rows: Row[] } = $state.raw({ first: 0, rows: [] });
  hits = $state(0);
  /** The number of the current hit, from 1. */
  nth = $state(0);
  searching = $state(false);
  searchProblem: string | undefined = $state();
  /** The first failure of the connection, until the reader dismisses it. */
  broke: { message: string; at: string } | undefined = $state.raw();
  /** The error with which the server refused the log. */
  refused: unknown = $state.raw();
  /** Called to show a hit or a line. */
  onplace: (position: number) => void = () => {};

  readonly #worker: Worker;
  readonly #look = () => this.ask({ do: "sight", hidden: document.visibilityState === "hidden" });
  #events: Parameters<Listener>[] = [];
  #onevent: Listener = (...event) => this.#events.push(event);

  constructor(runId: string, sessionId: string | undefined) {
    prepare();
    this.#worker = spare!;
    spare = undefined;
    this.#worker.onmessage = ({ data }: MessageEvent<Message>) => this.#receive(data);
    this.#worker.onerror = () => (this.refused = new Error("The part of this page that reads logs has failed. Reload the page."));
    this.#look();
    document.addEventListener("visibilitychange", this.#look);
    const headers = { "X-Belljar-Source": "Web", ...(token() ? { Authorization: `Bearer ${token()}` } : {}) };
    this.ask({ do: "open", url: apiBase + logPath(runId), headers: headers as Record<string, string>, files: sessionId !== undefined });
  }

  /** listen registers a receiver of the run's events, from the first one on. */
  listen(event: Listener): void {
    this.#onevent = event;
    for (const missed of this.#events.splice(0)) event(...missed);
  }

  ask(ask: Ask): void {
    this.#worker.postMessage(ask);
  }

  stream(stream: Stream): void {
    this.nth = 0;
    this.ask({ do: "stream", stream });
  }

  search(query: Query | undefined): void {
    this.nth = 0;
    this.ask({ do: "search", query });
  }

  close(): void {
    document.removeEventListener("visibilitychange", this.#look);
    this.#worker.terminate();
  }

  #receive(message: Message): void {
    switch (message.is) {
      case "state":
        this.rows = message.rows;
        this.lines = message.lines;
        this.size = message.size;
        this.connection = message.connection;
        if (message.connection.state === "waiting") this.broke ??= { message: message.connection.message, at: new Date().toISOString() };
        if (message.connection.state === "refused") this.refused ??= failureOf(message.connection.status, message.connection.body);
        return;
      case "rows":
        this.window = message;
        return;
      case "search":
        this.hits = message.hits;
        this.searching = message.busy;
        this.searchProblem = message.problem;
        return;
      case "place":
        if (message.nth !== undefined) this.nth = message.nth;
        return this.onplace(message.position);
      case "event":
        return this.#onevent(message.event, message.data);
    }
  }
}
