// The messages between the page and the worker that keeps a log.
import type { Connection } from "./feed.ts";
import type { Row } from "./row.ts";
import type { Query } from "./search.ts";

export type Stream = "both" | "stdout" | "stderr";

/** From the page. Positions count the rows of the chosen stream. */
export type Ask =
  /** Read a log. `files` links files of the workspace. */
  | { do: "open"; url: string; headers: Record<string, string>; files: boolean }
  /** The page is hidden, or visible again. */
  | { do: "sight"; hidden: boolean }
  /** Show these rows, and again when they change. With `last`, show those at the end. */
  | { do: "view"; first: number; count: number; last: boolean }
  | { do: "stream"; stream: Stream }
  | { do: "search"; query: Query | undefined }
  /** Go to the next hit in a direction: from the current hit, or otherwise from a position. */
  | { do: "hit"; from: number; by: 1 | -1 }
  /** Go to a line by its number, now or when it arrives. */
  | { do: "line"; number: number }
  /** Show a whole line. */
  | { do: "expand"; number: number }
  /** Reopen the connection without further delay. */
  | { do: "retry" };

/** Messages from the worker. */
export type Message =
  | { is: "state"; rows: number; lines: number; size: number; connection: Connection }
  | { is: "rows"; first: number; rows: Row[] }
  | { is: "search"; hits: number; busy: boolean; problem?: string | undefined }
  /** The position of a hit or a line; `nth` is the hit's number among all, from 1. */
  | { is: "place"; position: number; nth?: number }
  /** `data` is the line of a result. */
  | { is: "event"; event: string; data?: string };
