import { Passing } from "./backoff.js";
import { foreign, type Call, type CallOptions } from "./call.js";
import { kindOf, route, type Ask, type Connection } from "./connection.js";
import { InternalError } from "./error.js";
import { eventsOf, objectOf } from "./events.js";
import { strangerOf } from "./failure.js";
import { isNote, Texts, type Frame, type RawFrame } from "./frame.js";
import type { StartedRun } from "./types.js";

/** Options for following a log. */
export interface FollowOptions extends CallOptions {
  /** The first seq; 1 by default, `"tail"` for new frames only. */
  from?: number | "tail" | undefined;
}

/**
 * follow reads a run's log to its end. It reopens a broken connection after the last frame: no frame is missing or
 * repeated.
 * @internal
 */
export async function* follow(connection: Connection, runId: string, options: FollowOptions): AsyncGenerator<Frame> {
  const call = connection.call(options);
  try {
    const next = options.from === "tail" ? await tailOf(connection, runId, call) : Math.max(options.from ?? 1, 1);
    const follower = new Follower(connection, runId, call, next);
    const texts = new Texts();
    for await (const raw of follower.frames()) yield texts.frame(raw);
  } finally {
    call.end();
  }
}

// tailOf returns the first seq of the tail: a connection that breaks before the first frame then loses none.
async function tailOf(connection: Connection, runId: string, call: Call): Promise<number> {
  const run = await connection.json<StartedRun>({ method: "GET", path: route("runs", runId) }, { signal: call.signal });
  const last = run.last_seq ?? 0;
  return isEnd(run.phase) ? Math.max(last, 1) : last + 1; // the end event always counts as new
}

/**
 * isEnd reports whether a run in a phase has ended.
 * @internal
 */
export function isEnd(phase: string): boolean {
  return phase === "completed" || phase === "failed" || phase === "killed" || phase === "timed_out";
}

class Follower {
  #gap = 0; // the first seq of a gap that the server did not announce
  #over = false; // the server has no more frames

  constructor(
    readonly connection: Connection,
    readonly runId: string,
    readonly call: Call,
    public next: number,
  ) {}

  async *frames(): AsyncGenerator<RawFrame> {
    const { patienceMs } = this.connection.options;
    for (const tries = this.connection.tries(); ; ) {
      let received = false;
      try {
        for await (const raw of this.#read()) {
          received = true;
          yield raw;
          if (raw.type === "event" && raw.event === "end") return;
        }
        if (this.#over) return;
        throw new Passing(foreign("the server ended the log before its end"));
      } catch (error) {
        if (received) tries.progress(10 * patienceMs); // a stream that worked gets more patience
        await this.connection.wait(this.call, error, tries);
      }
    }
  }

  async *#read(): AsyncGenerator<RawFrame> {
    const ask: Ask = {
      method: "GET", path: route("runs", this.runId, "logs"), query: { from_seq: this.next },
      headers: { Accept: "text/event-stream" },
    };
    const { answer, chunks } = await openOnce(this.connection, this.call, ask);
    if (answer.status === 204) {
      answer.discard();
      this.#over = true;
      return;
    }
    let resumed = false; // the server has announced a gap
    for await (const { data } of eventsOf(chunks())) {
      const raw = objectOf<RawFrame>(data);
      if (typeof raw.seq !== "number" || typeof raw.type !== "string") throw foreign("the stream cannot be read");
      if (isNote(raw)) {
        resumed ||= raw.event === "resume";
        if (raw.event === "resume") this.next = Math.min(this.next, raw.seq); // lower if the log is shorter than that
        continue;
      }
      if (raw.seq < this.next) continue;
      if (raw.seq > this.next && !resumed) {
        const gap = missing(this.next, raw.seq - 1);
        if (this.#gap === this.next) throw gap; // a gap that occurs twice is permanent
        this.#gap = this.next;
        throw new Passing(gap);
      }
      resumed = false;
      this.next = raw.seq + 1;
      yield raw;
    }
  }
}

function missing(from: number, to: number): InternalError {
  return new InternalError({
    code: "internal", message: `the server left out frames ${from} to ${to} of the log`, details: { from_seq: from, to_seq: to },
  });
}

/**
 * openOnce requests a stream, once.
 * @internal
 */
export async function openOnce(connection: Connection, call: Call, ask: Ask): Promise<ReturnType<Connection["opened"]>> {
  const opened = await connection.once(call, ask, async (answer, watch) => connection.opened(answer, watch));
  if (opened.answer.status === 204 || kindOf(opened.answer) === "text/event-stream") return opened;
  opened.close();
  throw strangerOf(opened.answer);
}
