import type { BelljarError } from "./error.js";

/** Options for starting a private belljar: see `Belljar.local()`. */
export interface LocalOptions {
  /** The program; by default `$BELLJAR_BIN`, else `belljar` on the PATH. */
  binary?: string | undefined;
  /** Folder for its data, which persists between starts; without it, nothing is kept. */
  data?: string | undefined;
  /** Settings of the server, such as `{ image_pull: "never" }`: see docs/config.md. */
  set?: Record<string, string | number | boolean> | undefined;
  /** Environment variables of the program, in addition to those of this process. */
  env?: Record<string, string> | undefined;
  /** The time limit for its start, in milliseconds; 30,000 by default. */
  startTimeoutMs?: number | undefined;
  /** Receives the program's log, line by line. By default the log is dropped. */
  log?: ((line: string) => void) | undefined;
}

/**
 * LocalServer is a running private belljar.
 * @internal
 */
export interface LocalServer {
  baseUrl: string;
  socketPath: string;
  apiKey: string;
  pid: number;
  version: string;
  /** stop ends the server and all its sandboxes, and returns when it has exited. A second call is not an error. */
  stop(): Promise<void>;
  /** exited returns the error of every call once the server has ended; undefined while it runs. */
  exited(): BelljarError | undefined;
}
