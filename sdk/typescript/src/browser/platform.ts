// Bundlers for browsers use this file in place of src/node/platform.ts.
import { InvalidRequestError } from "../error.js";
import type { Platform } from "../platform.js";

const missing = (what: string) => (): never => {
  throw new InvalidRequestError({ code: "invalid_request", message: `${what} needs node: a browser has none` });
};

export const httpTransport: Platform["httpTransport"] = missing("a unix socket");
export const dial: Platform["dial"] = missing("a WebSocket of our own");
export const startLocal: Platform["startLocal"] = missing("a private belljar");
