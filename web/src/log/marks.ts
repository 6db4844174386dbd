// The text of events in a log.
import { bytes, count } from "../format.ts";
import type { Mark } from "./lines.ts";

/** A frame of a log in its JSON form. */
export interface RawFrame {
  type: string;
  seq: number;
  encoding?: string;
  step?: string;
  event?: string;
  data?: unknown;
  reason?: string;
}

const stdinReasons: Record<string, string> = {
  client: "it was ended by a client",
  run_ended: "the run has ended",
  connection_lost: "the server is shutting down, and the run continues",
  stdin_max_bytes: "it has reached its most bytes (stdin_max_bytes)",
  stdin_max_frame_bytes: "a message was too large (stdin_max_frame_bytes)",
  stdin_bps: "it came too fast (stdin_bps)",
  stdin_idle_timeout_sec: "nothing came for too long (stdin_idle_timeout_sec)",
};

/** markOf returns the mark of a frame in a log; undefined if it has none. */
export function markOf(frame: RawFrame): Mark | undefined {
  if (frame.type === "truncated") {
    return { text: frame.reason === "log_cap" ? "The log has reached its limit. Later output was not kept." : `The log was cut here: ${frame.reason ?? "no reason given"}.`, warn: true };
  }
  if (frame.type !== "event") return undefined;
  const data = (frame.data ?? {}) as Record<string, unknown>;
  const word = (name: string) => (typeof data[name] === "string" || typeof data[name] === "number" ? String(data[name]) : "");
  switch (frame.event) {
    case "resume":
      return { text: `${count(Number(data["lost_count"]) || 0, "frame")} of the log are gone here. The server no longer has them.`, warn: true };
    case "stdin_closed":
      return { text: `Standard input is closed: ${stdinReasons[word("reason")] ?? word("reason")}.` };
    case "egress": {
      const host = word("host") + (data["port"] ? `:${word("port")}` : "");
      if (data["allowed"] === true) return { text: `Network: connected to ${host}${data["rule"] ? `, which the rule ${word("rule")} allows` : ""}` };
      return { text: `Network: ${host} was denied (${word("reason")})`, warn: true };
    }
    case "git":
      if (data["state"] === "cloning") return { text: `Git: cloning ${word("url")}${data["ref"] ? ` at ${word("ref")}` : ""}` };
      return { text: `Git: ${word("state")}${data["commit"] ? ` ${word("commit").slice(0, 12)}` : ""}${typeof data["files"] === "number" ? `, ${count(data["files"], "file")}` : ""}${typeof data["bytes"] === "number" ? `, ${bytes(data["bytes"])}` : ""}` };
    case "packages":
      return { text: `${word("tool") || "packages"}: ${word("text")}` };
    case "approval":
      return { text: data["state"] === "pending" ? "Waits for an operator's approval" : `Approval: ${word("state")}${data["decided_by"] ? ` by ${word("decided_by")}` : ""}`, warn: data["state"] !== "approved" };
    case "error":
      return { text: `Error: ${word("message") || word("code")}`, warn: true };
  }
  return undefined;
}
