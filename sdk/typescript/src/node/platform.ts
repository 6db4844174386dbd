// What only node has. src/platform.ts loads it when it is needed.
export { httpTransport } from "./http.js";
export { startLocal } from "./local.js";
export { dial } from "./websocket.js";
