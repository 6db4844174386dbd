// The node-only part of the package. src/platform.ts loads it when needed.
export { httpTransport } from "./http.js";
export { startLocal } from "./local.js";
export { dial } from "./websocket.js";
