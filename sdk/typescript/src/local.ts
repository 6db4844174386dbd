import type { BelljarError } from "./error.js";

/** The options of `Belljar.local()`. */
export interface LocalOptions {
  /** The program; by default `$BELLJAR_BIN`, or `belljar` on the PATH. */
  binary?: string | undefined;
  /** A folder for its data, which persists between starts; without it, nothing is kept. */
  data?: string | undefined;
  /** Settings of the server, such as `{ image_pull: "never" }`: see docs/config.md. */
  set?: Record<string, string | number | boolean> | undefined;
  /** Environment variables of the program, in addition to this process's. */
  env?: Record<string, string> | undefined;
  /** How long the program may take to become ready, in milliseconds; 30,000 by default. */
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
  /** stop ends it and all its sandboxes, and returns when the process has ended. You may call it twice. */
  stop(): Promise<void>;
  /** exited returns the error of every call after its end; undefined while it runs. */
  exited(): BelljarError | undefined;
}
