import type { LocalOptions, LocalServer } from "./local.js";
import type { Dial } from "./socket.js";
import type { Transport } from "./transport.js";

/**
 * Platform has the features that browsers lack. src/node implements them; src/browser throws errors. Both load only
 * on demand, so that browsers never see the former.
 * @internal
 */
export interface Platform {
  /** httpTransport sends requests, over a unix socket if a path is given. */
  httpTransport(socketPath?: string): Transport;
  /** dial opens a WebSocket, over a unix socket if a path is given. */
  dial(socketPath?: string): Dial;
  /** startLocal starts a private belljar. */
  startLocal(options: LocalOptions): Promise<LocalServer>;
}

/**
 * onNode reports whether node's modules are available.
 * @internal
 */
export const onNode = typeof process !== "undefined" && typeof process.versions?.node === "string";

/**
 * platform loads the code for node or for browsers.
 * @internal
 */
export function platform(): Promise<Platform> {
  return onNode ? import("./node/platform.js") : import("./browser/platform.js");
}
