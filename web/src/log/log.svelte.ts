// A log as a page has it: the worker that holds the bytes, and the rows that are visible.
import { failureOf } from "../client.svelte.ts";
import type { Connection } from "./feed.ts";
import type { Row } from "./row.ts";
import type { Query } from "./search.ts";
import { startWorker } from "./start.ts";
import type { Ask, Stream, Told } from "./wire.ts";
import workerUrl from "./worker.ts?worker&url";

export interface LogSource {
  url: string;
  headers: Record<string, string>;
  /** Whether files of the workspace are linked. */
  files: boolean;
  /** Gets what happens to the run. */
  event?: ((event: string, data: Record<string, unknown>) => void) | undefined;
}

export class Log {
  /** Rows that can be shown: those of the chosen stream. */
  rows = $state(0);
  lines = $state(0);
  size = $state(0);
  connection: Connection = $state.raw({ state: "opening" });
  /** The rows that the worker has sent last. */
  window: { first: number; rows: Row[] } = $state.raw({ first: 0, rows: [] });
  hits = $state(0);
  /** The hit that was gone to, from 1. */
  nth = $state(0);
  searching = $state(false);
  searchProblem: string | undefined = $state();
  /** The first failure of the connection; it stays until the reader dismisses it. */
  broke: { message: string; at: Date } | undefined = $state.raw();
  /** Why the server has refused the log. */
  refused: unknown = $state.raw();
  /** Called when a hit or a line is to be shown. */
  onplace: (position: number) => void = () => {};

  readonly #worker: Worker;

  constructor(source: LogSource) {
    this.#worker = startWorker(workerUrl, "log");
    this.#worker.onmessage = ({ data }: MessageEvent<Told>) => this.#told(data, source);
    this.#worker.onerror = () => (this.refused = new Error("The part of this page that reads logs has failed. Reload the page."));
    this.ask({ do: "open", url: source.url, headers: source.headers, files: source.files });
  }

  ask(ask: Ask): void {
    this.#worker.postMessage(ask);
  }

  stream(stream: Stream): void {
    this.ask({ do: "stream", stream });
  }

  search(query: Query | undefined): void {
    this.nth = 0;
    this.ask({ do: "search", query });
  }

  close(): void {
    this.#worker.terminate();
  }

  #told(told: Told, source: LogSource): void {
    switch (told.is) {
      case "state":
        this.rows = told.rows;
        this.lines = told.lines;
        this.size = told.size;
        this.connection = told.connection;
        if (told.connection.state === "waiting") this.broke ??= { message: told.connection.message, at: new Date() };
        if (told.connection.state === "refused") this.refused ??= failureOf(told.connection.status, told.connection.body);
        return;
      case "rows":
        this.window = told;
        return;
      case "search":
        this.hits = told.hits;
        this.searching = told.busy;
        this.searchProblem = told.problem;
        return;
      case "place":
        if (told.nth !== undefined) this.nth = told.nth;
        return this.onplace(told.position);
      case "event":
        return source.event?.(told.event, told.data);
    }
  }
}
