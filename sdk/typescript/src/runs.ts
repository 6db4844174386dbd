import { base64, bytesOf, keyOf } from "./bytes.js";
import type { Call, CallOptions } from "./call.js";
import { route, type Ask, type Connection } from "./connection.js";
import { invalid } from "./error.js";
import { follow, isEnd, type FollowOptions } from "./follow.js";
import type { Frame, OutputFrame } from "./frame.js";
import { RunInput } from "./input.js";
import { Excerpt, Output, resultOf, resultsOf, RunResult } from "./result.js";
import type { Doorway } from "./socket.js";
import type { Cancellation, InlineFile, Result, Run, RunPage, RunSpec, StartedRun, UsageSample } from "./types.js";
import { watchUsage } from "./usage.js";

/** Options for starting a run. */
export interface StartOptions extends CallOptions {
  /**
   * A repeated request with the same key, within ten minutes, returns the first one's run; at most 128 characters. Without a key, every call is a
   * separate request; this package generates a key to repeat it.
   */
  idempotencyKey?: string | undefined;
}

/** Options for a run with its result. */
export interface RunOptions extends StartOptions {
  /** Receives the output as it arrives. The package waits for a promise that it returns, so a slow receiver slows down the frames. */
  onOutput?: ((frame: OutputFrame) => unknown) | undefined;
}

/** A filter for runs. */
export interface RunQuery {
  phase?: Run["phase"] | undefined;
  runtime?: string | undefined;
  baseImage?: string | undefined;
  sessionId?: string | undefined;
  /** A part of the image's name, or of the message. */
  q?: string | undefined;
  startedFrom?: Date | undefined;
  startedTo?: Date | undefined;
  finishedFrom?: Date | undefined;
  finishedTo?: Date | undefined;
  /** created_at, started_at or finished_at, with :asc or :desc; created_at:desc by default. */
  sort?: string | undefined;
  /** Runs in a page: 50 by default, at most 200. */
  limit?: number | undefined;
  offset?: number | undefined;
}

/** The wait of one request: proxies cut connections that are silent for longer. */
const waitSec = 30;

/** The caller's runs. */
export class Runs {
  readonly #connection: Connection;
  readonly #doorway: Doorway;
  readonly #image: string;

  /** @internal */
  constructor(doorway: Doorway, image: string) {
    this.#connection = doorway.connection;
    this.#doorway = doorway;
    this.#image = image;
  }

  /** run runs a program to its end. If its signal is aborted, or its time is over, it cancels the run. */
  async run(spec: RunSpec | string[], options: RunOptions = {}): Promise<RunResult> {
    const key = keyOf(options.idempotencyKey);
    const call = this.#connection.call(options);
    let ask: Ask | undefined;
    let started: StartedRun | undefined;
    try {
      ask = this.#asked(spec, key, options.onOutput ? 0 : waitSec);
      started = await this.#connection.json<StartedRun>(ask, { signal: call.signal });
      if (started.stdout !== undefined && isEnd(started.phase)) return resultOf(await this.#withResults(call, started));
      return await this.#collect(call, started.id, options.onOutput);
    } catch (error) {
      if (ask?.sent && call.signal.aborted) this.#abandon(spec, key, started?.id);
      throw error;
    } finally {
      call.end();
    }
  }

  /** start starts a run and returns it without waiting for its end, queued or starting. */
  async start(spec: RunSpec | string[], options: StartOptions = {}): Promise<StartedRun> {
    const call = this.#connection.call(options);
    try {
      return await this.#connection.json(this.#asked(spec, keyOf(options.idempotencyKey), 0), { signal: call.signal });
    } finally {
      call.end();
    }
  }

  /** get returns a run. */
  get(id: string, options?: CallOptions): Promise<Run> {
    return this.#connection.json({ method: "GET", path: route("runs", id) }, options);
  }

  /** list returns the caller's runs, newest first by default. */
  list(query: RunQuery = {}, options?: CallOptions): Promise<RunPage> {
    return this.#connection.json(
      {
        method: "GET",
        path: route("runs"),
        query: {
          phase: query.phase, runtime: query.runtime, base_image: query.baseImage, session_id: query.sessionId, q: query.q,
          started_at_from: query.startedFrom, started_at_to: query.startedTo,
          finished_at_from: query.finishedFrom, finished_at_to: query.finishedTo,
          sort: query.sort, limit: query.limit, offset: query.offset,
        },
      },
      options,
    );
  }

  /** wait waits for the end of a run and returns its result. If its signal is aborted, the run continues. */
  async wait(id: string, options: Omit<RunOptions, "idempotencyKey"> = {}): Promise<RunResult> {
    const call = this.#connection.call(options);
    try {
      return await this.#collect(call, id, options.onOutput);
    } finally {
      call.end();
    }
  }

  /**
   * frames follows a run's log to its end, beginning with the seq `from`. It survives broken connections and server restarts: no frame is missing or
   * repeated. Leave the loop, or abort the signal, to stop.
   */
  frames(id: string, options: FollowOptions = {}): AsyncGenerator<Frame, void, undefined> {
    return follow(this.#connection, id, options);
  }

  /** output yields a run's output, without the other frames. */
  async *output(id: string, options: FollowOptions = {}): AsyncGenerator<OutputFrame, void, undefined> {
    for await (const frame of this.frames(id, options)) {
      if (frame.type === "stdout" || frame.type === "stderr") yield frame;
    }
  }

  /** input opens the standard input of a run that was started with `interactive: true`. Aborting the signal closes the connection. */
  input(id: string, options: CallOptions = {}): Promise<RunInput> {
    return RunInput.open(this.#doorway, id, options);
  }

  /**
   * usage yields the resource usage of a run's sandbox, about once a second, from the start of the sandbox until the run ends. A run in a session
   * has the figures of the session's sandbox.
   */
  usage(id: string, options?: CallOptions): AsyncGenerator<UsageSample> {
    return watchUsage(this.#connection, route("runs", id, "usage"), options);
  }

  /** cancel ends a run: TERM, a grace period, KILL. It returns at once. It does not change a run that has ended. */
  cancel(id: string, options?: CallOptions): Promise<Cancellation> {
    return this.#connection.json({ method: "POST", path: route("runs", id, "cancel") }, options);
  }

  #asked(asked: RunSpec | string[], key: string, wait: number): Ask {
    const spec = specOf(asked);
    const image = spec.base_image ?? (spec.session_id || spec.template ? undefined : this.#image);
    return {
      method: "POST", path: route("runs"), query: { wait: wait ? `${wait}s` : "false" }, headers: { "Idempotency-Key": key },
      json: { ...spec, spec_version: spec.spec_version ?? "1.1", base_image: image, files: inlined(spec.files) },
      longerMs: wait * 1000,
    };
  }

  // withResults adds the missing results to an answer, which has only the first 4 MiB of them.
  async #withResults(call: Call, run: StartedRun): Promise<StartedRun> {
    if (!run.results_truncated) return run;
    const { items, truncated } = await this.#connection.json<{ items: Result[]; truncated: boolean }>({ method: "GET", path: route("runs", run.id, "results") }, { signal: call.signal });
    return { ...run, results: items, results_truncated: truncated };
  }

  async #collect(call: Call, id: string, onOutput: RunOptions["onOutput"]): Promise<RunResult> {
    const printed = { stdout: new Excerpt(), stderr: new Excerpt() };
    let capped = false;
    let lines = "";
    for await (const frame of follow(this.#connection, id, { signal: call.signal })) {
      if (frame.type === "stdout" || frame.type === "stderr") {
        if (!frame.step) printed[frame.type].add(frame.data);
        await call.tell(onOutput, frame);
      }
      if (frame.type === "result") lines += frame.text;
      capped ||= frame.type === "truncated";
    }
    const run = await this.get(id, { signal: call.signal });
    const [stdout, stderr] = [printed.stdout, printed.stderr].map((e) => new Output(e.bytes(), capped || e.truncated));
    return new RunResult(run, stdout!, stderr!, resultsOf(lines));
  }

  // abandon cancels a run in the background after its caller has aborted the call. It finds an unknown id by the
  // request's key. That would start a run that the server has not accepted yet.
  #abandon(spec: RunSpec | string[], key: string, id: string | undefined): void {
    const bound = { timeoutMs: 10_000 };
    const cancel = async (): Promise<void> => {
      id ??= (await this.#connection.json<StartedRun>(this.#asked(spec, key, 0), bound)).id;
      await this.cancel(id, bound);
    };
    this.#connection.leave(cancel()); // if that fails, the run's own timeout ends it
  }
}

/**
 * specOf returns the spec of a run as an object.
 * @internal
 */
export function specOf(asked: RunSpec | string[]): RunSpec {
  if (typeof asked === "object" && asked !== null) return Array.isArray(asked) ? { command: asked } : asked;
  throw invalid("command", `a run is an array of arguments or an object, not ${JSON.stringify(asked)}`, 'write ["sh", "-c", line] for a line of a shell');
}

function inlined(files: RunSpec["files"]): InlineFile[] | undefined {
  if (files === undefined || Array.isArray(files)) return files;
  return Object.entries(files).map(([path, content]) => ({
    path, content_b64: base64(bytesOf(content)),
  }));
}
