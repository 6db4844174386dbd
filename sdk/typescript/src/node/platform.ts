// The code for node only. src/platform.ts loads it on first use.
export { httpTransport } from "./http.js";
export { startLocal } from "./local.js";
export { dial } from "./websocket.js";
