import type { BelljarError } from "./error.js";

/** How a private belljar is started: see `Belljar.local()`. */
export interface LocalOptions {
  /** The program; else `$BELLJAR_BIN`, else `belljar` on the PATH. */
  binary?: string | undefined;
  /** Folder for its data, which stays from one start to the next; without it, nothing is kept. */
  data?: string | undefined;
  /** Settings of the server, such as `{ image_pull: "never" }`: see docs/config.md. */
  set?: Record<string, string | number | boolean> | undefined;
  /** Environment of the program, over this process's own. */
  env?: Record<string, string> | undefined;
  /** How long it may take until it is ready, in milliseconds; 30,000 if it is not given. */
  startTimeoutMs?: number | undefined;
  /** Gets what it logs, line by line. By default that is dropped. */
  log?: ((line: string) => void) | undefined;
}

/**
 * LocalServer is a private belljar that runs.
 * @internal
 */
export interface LocalServer {
  baseUrl: string;
  socketPath: string;
  apiKey: string;
  pid: number;
  version: string;
  /** stop ends it and all its sandboxes, and returns when it is gone. It may be called twice. */
  stop(): Promise<void>;
  /** exited is the error of every call once it has ended; undefined while it runs. */
  exited(): BelljarError | undefined;
}
