// What the page and the worker that holds a log say to each other.
import type { Connection } from "./feed.ts";
import type { Row } from "./row.ts";
import type { Query } from "./search.ts";

export type Stream = "both" | "stdout" | "stderr";

/** From the page. Positions count the rows that are shown: those of the chosen stream. */
export type Ask =
  /** Read a log. `files` links what is in the workspace. */
  | { do: "open"; url: string; headers: Record<string, string>; files: boolean }
  /** Show these rows, and again when they change. With `last`, those at the end. */
  | { do: "view"; first: number; count: number; last: boolean }
  | { do: "stream"; stream: Stream }
  | { do: "search"; query: Query | undefined }
  /** Go to the next hit in a direction: from the last one that was gone to, or else from a position. */
  | { do: "hit"; from: number; by: 1 | -1 }
  /** Go to a line by its number, now or when it comes. */
  | { do: "line"; number: number }
  /** Show a whole line. */
  | { do: "expand"; number: number }
  /** Do not wait any longer before the connection is opened again. */
  | { do: "retry" };

/** From the worker. */
export type Told =
  | { is: "state"; rows: number; lines: number; size: number; connection: Connection }
  | { is: "rows"; first: number; rows: Row[] }
  | { is: "search"; hits: number; busy: boolean; problem?: string | undefined }
  /** Where a hit or a line is; `nth` is the hit's place among all, from 1. */
  | { is: "place"; position: number; nth?: number }
  /** `data` is the line of a result. */
  | { is: "event"; event: string; data?: string };
