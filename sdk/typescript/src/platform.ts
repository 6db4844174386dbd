import type { LocalOptions, LocalServer } from "./local.js";
import type { Dial } from "./socket.js";
import type { Transport } from "./transport.js";

/**
 * Platform is what a browser has not got. src/node has it; src/browser says so. Either is loaded only when it is needed,
 * so that browsers never see the former.
 * @internal
 */
export interface Platform {
  /** httpTransport carries requests, over a unix socket if a path is given. */
  httpTransport(socketPath?: string): Transport;
  /** dial opens a WebSocket, over a unix socket if a path is given. */
  dial(socketPath?: string): Dial;
  /** startLocal starts a private belljar. */
  startLocal(options: LocalOptions): Promise<LocalServer>;
}

/**
 * onNode tells whether node's modules are there.
 * @internal
 */
export const onNode = typeof process !== "undefined" && typeof process.versions?.node === "string";

/**
 * platform loads what only node has.
 * @internal
 */
export function platform(): Promise<Platform> {
  return onNode ? import("./node/platform.js") : import("./browser/platform.js");
}
