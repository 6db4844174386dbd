// Follows a run's log: every frame once and in order, across broken connections.
import type { RawFrame } from "./marks.ts";

/** The state of the connection. */
export type Connection =
  | { state: "opening" }
  | { state: "open" }
  /** It broke; the next attempt is at `until` (milliseconds of Date.now). */
  | { state: "waiting"; until: number; message: string }
  /** The log is complete. */
  | { state: "ended" }
  /** The server has refused the request. */
  | { state: "refused"; status: number; body: unknown };

/** Whether the page is in sight. It dispatches `change`. */
export class Sight extends EventTarget {
  hidden = false;

  set(hidden: boolean): void {
    if (hidden === this.hidden) return;
    this.hidden = hidden;
    this.dispatchEvent(new Event("change"));
  }
}

export interface FeedOptions {
  /** The address of the log. */
  url: string;
  headers: Record<string, string>;
  signal: AbortSignal;
  fetch: typeof fetch;
  /** wait resolves after a time, or earlier if the reader skips the wait. */
  wait: (ms: number) => Promise<void>;
  /** pause lets other work run. It is called often. */
  pause: () => Promise<void> | undefined;
  frame: (frame: RawFrame) => void;
  changed: (connection: Connection) => void;
  /**
   * While the page is hidden, the feed reads what the log has and then waits: a browser opens six connections to a server, and six tabs that
   * follow logs would keep all of them.
   */
  sight: Sight;
  /** How long the server may be silent, in milliseconds; 30,000 by default. Its heartbeats come every 10 s. */
  silenceMs?: number;
}

class Refused extends Error {
  constructor(readonly status: number, readonly body: unknown, readonly retryAfter: number) {
    super(`The server answered with status ${status}.`);
  }

  get final(): boolean {
    return this.status < 500 && this.status !== 408 && this.status !== 429;
  }
}

/** follow reads a log to its end. */
export async function follow(options: FeedOptions): Promise<void> {
  const reader = new Reader(options);
  options.changed({ state: "opening" });
  for (let failures = 0; !options.signal.aborted; failures++) {
    const before = reader.next;
    let after = 0;
    let message = "The server ended the log before its end.";
    let end: End | undefined;
    try {
      end = await reader.read();
    } catch (error) {
      if (options.signal.aborted) return;
      if (error instanceof Refused) {
        if (error.final) return options.changed({ state: "refused", status: error.status, body: error.body });
        after = error.retryAfter * 1000;
      }
      message = error instanceof TypeError ? "The connection to the server broke." : (error as Error).message;
    }
    if (reader.over) return options.changed({ state: "ended" });
    if (end === "part" || end === "hidden") {
      if (end === "part" && options.sight.hidden) await once(options.sight, "change");
      else if (end === "part" && reader.polling) await options.wait(1000);
      failures = -1;
      continue;
    }
    if (reader.next > before) failures = 0;
    const ms = Math.max(after, Math.min(1000 * 2 ** failures, 30_000)) * (0.9 + 0.2 * Math.random());
    options.changed({ state: "waiting", until: Date.now() + ms, message });
    await options.wait(ms);
  }
}

const once = (target: EventTarget, type: string) => new Promise((resolve) => target.addEventListener(type, resolve, { once: true }));

/** How an answer ended: the server ended it, it has the log up to now, or the page was hidden. */
type End = "whole" | "part" | "hidden";

class Reader {
  next = 1;
  over = false;
  /** Whether a proxy buffers answers until they are complete: then the log is requested in parts. */
  polling = false;
  #gap = 0; // the first seq of a gap that the server did not announce
  #empty = false; // the last answer was complete and empty

  constructor(readonly options: FeedOptions) {}

  async read(): Promise<End> {
    const { options } = this;
    const stop = new AbortController();
    const silenceMs = options.silenceMs ?? 30_000;
    let readAt = Date.now();
    let silent = false;
    let came = false;
    const follows = !this.polling && !options.sight.hidden;
    let left = false;
    const leave = () => {
      left = true;
      stop.abort();
    };
    if (follows) options.sight.addEventListener("change", leave);
    const watch = setInterval(() => {
      if (Date.now() - readAt < silenceMs) return;
      silent = true;
      stop.abort();
    }, Math.min(silenceMs / 4, 5000));
    const abort = () => stop.abort();
    options.signal.addEventListener("abort", abort);
    try {
      const answer = await options.fetch(`${options.url}?format=json&follow=${follows}&from_seq=${this.next}`, {
        headers: options.headers, signal: stop.signal, cache: "no-store", credentials: "omit", redirect: "error",
      });
      if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => undefined), Number(answer.headers.get("Retry-After")) || 0);
      options.changed({ state: "open" });
      const before = this.next;
      const reader = answer.body!.getReader();
      const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
      let rest = "";
      let resumed = false;
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        readAt = Date.now();
        came = true;
        const text = rest + decoder.decode(value, { stream: true });
        let from = 0;
        for (let to = text.indexOf("\n"); to >= 0; to = text.indexOf("\n", from)) {
          if (to > from) resumed = this.#frame(text.slice(from, to), resumed);
          from = to + 1;
          if (this.over) {
            reader.cancel().catch(() => {});
            return "whole";
          }
          const pause = options.pause();
          if (pause) await pause;
        }
        rest = text.slice(from);
        if (rest.length > 8 << 20) throw new Error("The server sent a frame without an end.");
      }
      // After two complete and empty answers, the server has no more of it.
      const empty = this.next === before;
      this.over = empty && this.#empty && follows;
      this.#empty = empty && follows;
      return follows ? "whole" : "part";
    } catch (error) {
      if (left) return "hidden";
      this.polling ||= follows && silent && !came;
      throw silent ? new Error(`The server was silent for ${Math.round(silenceMs / 1000)} s.`) : error;
    } finally {
      clearInterval(watch);
      options.signal.removeEventListener("abort", abort);
      options.sight.removeEventListener("change", leave);
      stop.abort();
    }
  }

  #frame(line: string, resumed: boolean): boolean {
    const frame = JSON.parse(line) as RawFrame;
    if (typeof frame?.seq !== "number" || typeof frame.type !== "string") throw new Error("The server sent something that is not a log.");
    if (frame.type === "event" && (frame.event === "resume" || frame.event === "stdin_closed")) {
      // A note to this reader, outside of the log.
      if (frame.event !== "resume" || frame.seq >= this.next) this.options.frame(frame);
      if (frame.event === "resume") this.next = Math.min(this.next, frame.seq); // lower if the log is shorter than that
      return resumed || frame.event === "resume";
    }
    if (frame.seq < this.next) return resumed;
    if (frame.seq > this.next && !resumed) {
      if (this.#gap !== this.next) {
        this.#gap = this.next;
        throw new Error(`The server left out frames ${this.next} to ${frame.seq - 1}.`);
      }
      // A repeated gap is permanent. The reader has to know.
      this.options.frame({ type: "event", event: "resume", seq: frame.seq, data: { lost_count: frame.seq - this.next } });
    }
    this.next = frame.seq + 1;
    this.options.frame(frame);
    this.over = frame.type === "event" && frame.event === "end";
    return false;
  }
}
