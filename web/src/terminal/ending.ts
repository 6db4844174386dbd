// The end of a terminal's connection, and whether the page should reconnect by itself.
import type { TerminalEvent } from "belljar-sdk";

/** An end of a connection, for people. */
export interface Ending {
  /** The close code of the WebSocket; 0 if it was never open. */
  code: number;
  message: string;
  hint?: string | undefined;
  /** Whether the page reconnects automatically. */
  again: boolean;
}

/** The known fields of an error of the SDK. */
interface Failure {
  code?: unknown;
  message?: unknown;
  hint?: unknown;
  details?: { close_code?: unknown };
}

/** endingOf describes a connection that the server closed, by its last event. */
export function endingOf(event: Exclude<TerminalEvent, { kind: "history" | "output" | "exit" }>): Ending {
  switch (event.kind) {
    case "replaced":
      return { code: 4010, message: "Another window or client has taken this terminal over.", hint: "Reconnect takes it back.", again: false };
    case "overflow":
      return { code: 4009, message: "This page read too slowly.", again: true };
    case "closed":
      switch (event.reason) {
        case "closed":
          return { code: 4004, message: "The terminal or its session has ended.", again: false };
        case "shutdown":
          return { code: 1001, message: "The server stops.", hint: "The terminal is there again once it has started.", again: true };
        case "client closed":
          return { code: 1000, message: "This page has left the terminal.", again: false };
        default:
          return { code: 4008, message: `The terminal's time is over: ${event.reason.replaceAll("_", " ")}.`, again: false };
      }
  }
}

const codes: Record<string, number> = { unauthorized: 4001, not_found: 4004, session_expired: 4004, invalid_request: 1008, forbidden: 1008, policy_denied: 1008 };
const passing = /^(runtime_unavailable|timeout|rate_limited|internal)$/;

/** failureOf describes a connection that broke, or was never open. */
export function failureOf(error: unknown): Ending {
  const { code, message, hint, details } = (error ?? {}) as Failure;
  const name = typeof code === "string" ? code : "";
  const close = typeof details?.close_code === "number" ? details.close_code : (codes[name] ?? 0);
  return {
    code: close,
    message: typeof message === "string" && message ? message : "The connection broke.",
    hint: typeof hint === "string" && hint ? hint : undefined,
    again: close !== 1008 && close !== 4001 && close !== 4004 && close !== 4010 && (name === "" || passing.test(name)),
  };
}

/** pauseMs returns the pause before try n, from 0: 0.5, 1, 2, 4, 8, 10, 10 … s. */
export function pauseMs(n: number): number {
  return Math.min(500 * 2 ** Math.min(n, 10), 10_000);
}
