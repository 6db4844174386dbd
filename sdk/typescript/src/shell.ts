import { keyOf } from "./bytes.js";
import { Passing } from "./backoff.js";
import { foreign, type Call, type CallOptions } from "./call.js";
import { kindOf, route, type Ask, type Connection } from "./connection.js";
import { errorOf, type ErrorBody } from "./error.js";
import { eventsOf, objectOf } from "./events.js";
import { strangerOf } from "./failure.js";
import { follow } from "./follow.js";
import { Texts, type OutputFrame } from "./frame.js";
import { Excerpt, Output } from "./result.js";
import type { Run } from "./types.js";

/** Options for a command in a session's shell. */
export interface ExecOptions extends Omit<CallOptions, "timeoutMs"> {
  /** The time limit for the command; the session's timeout by default. The command is then interrupted, and exitCode is 124. */
  timeoutMs?: number | undefined;
  /** Keep stdout and stderr apart, on pipes; otherwise both are one terminal. */
  separate?: boolean | undefined;
  /** The command's whole standard input; empty by default. */
  stdin?: string | undefined;
  /** Receives the command's output as it arrives. exec waits for a promise that it returns. */
  onOutput?: ((frame: OutputFrame) => unknown) | undefined;
  idempotencyKey?: string | undefined;
}

/** The result of a command in a session's shell. */
export interface ExecResult {
  /** 124 after a timeout, 128+n if a signal ended it, 125 if it never began. */
  exitCode: number;
  /** The directory in which the next command starts. */
  cwd: string;
  /** The output of both streams in order of arrival: at most 1 MiB of each. A longer stream keeps its beginning and its end. */
  output: string;
  /** Whether some of the output is missing. */
  truncated: boolean;
  durationMs: number;
  /** The output's bytes. */
  outputBytes: Uint8Array;
  /** With `separate`, the command's standard output; otherwise equal to output. */
  stdout: string;
  /** With `separate`, the command's standard error. */
  stderr: string;
  /** The id of the command's run. */
  runId: string;
  /** `kept`, or `replaced` if the next command has a new shell, in the same directory but without the variables. */
  shell: "kept" | "replaced" | (string & {});
  timedOut: boolean;
  signal: string;
  reason: string;
  message: string;
  hint: string;
  warnings: string[];
}

interface Done {
  exit_code: number;
  cwd: string;
  truncated: boolean;
  duration_ms: number;
  run_id: string;
  shell?: string;
  timed_out: boolean;
  signal?: string;
  reason_code?: string;
  message?: string;
  hint?: string;
  warnings?: string[];
}

interface Chunk {
  seq: number;
  stream: "stdout" | "stderr";
  encoding: string;
  output: string;
}

/**
 * exec runs a command in a session's shell and follows it to its end, across broken connections. An abort cancels the command.
 * @internal
 */
export async function exec(connection: Connection, session: string, cmd: string, options: ExecOptions): Promise<ExecResult> {
  const key = keyOf(options.idempotencyKey);
  const call = connection.call({ signal: options.signal });
  const ask: Ask = {
    method: "POST", path: route("sessions", session, "shell"), longerMs: 60_000,
    headers: { Accept: "text/event-stream", "Idempotency-Key": key },
    json: { cmd, timeout_ms: options.timeoutMs, separate: options.separate, stdin: options.stdin },
  };
  const command = new Command(connection, call, options.onOutput);
  try {
    return await command.run(ask);
  } catch (error) {
    if (ask.sent && call.signal.aborted) abandon(connection, ask, command.runId);
    throw command.fault?.error ?? error;
  } finally {
    call.end();
  }
}

class Command {
  runId: string | undefined;
  fault: { error: unknown } | undefined; // the error of onOutput, or the end of the call while it was pending
  #seq = 0; // the last received frame
  readonly #texts = new Texts();
  readonly #all = new Excerpt();
  readonly #parts = { stdout: new Excerpt(), stderr: new Excerpt() };
  #capped = false;

  constructor(
    readonly connection: Connection,
    readonly call: Call,
    readonly onOutput: ExecOptions["onOutput"],
  ) {}

  async run(ask: Ask): Promise<ExecResult> {
    for (const tries = this.connection.tries(); this.runId === undefined; ) {
      try {
        return this.#result(await this.connection.once(this.call, ask, (answer, watch) => {
          if (kindOf(answer) !== "text/event-stream") throw strangerOf(answer);
          return this.#read(this.connection.opened(answer, watch).chunks());
        }));
      } catch (error) {
        if (!(error instanceof Passing) || this.runId === undefined) {
          await this.connection.wait(this.call, error, tries); // the same key finds the same run
        }
      }
    }
    return this.#result(await this.#takeUp(this.runId));
  }

  async #read(chunks: AsyncIterable<Uint8Array>): Promise<Done> {
    for await (const { name, data } of eventsOf(chunks)) {
      switch (name) {
        case "start":
          this.runId = objectOf<{ run_id: string }>(data).run_id;
          break;
        case "chunk": {
          const chunk = objectOf<Chunk>(data);
          if (chunk.seq <= this.#seq) break;
          await this.#take(this.#texts.output(chunk.seq, chunk.stream === "stderr" ? "stderr" : "stdout", chunk.encoding, chunk.output));
          break;
        }
        case "done":
          return objectOf<Done>(data);
        case "error": {
          const { error } = objectOf<{ error: ErrorBody }>(data);
          const failure = errorOf(error);
          // The server could not continue the stream, but the command continues.
          throw this.runId !== undefined && failure.code === "runtime_unavailable" ? new Passing(failure) : failure;
        }
      }
    }
    throw new Passing(foreign("the server ended the stream before the command"));
  }

  // takeUp follows the command through its run's log.
  async #takeUp(runId: string): Promise<Done> {
    const options = { signal: this.call.signal, from: this.#seq + 1 };
    for await (const frame of follow(this.connection, runId, options)) {
      if (frame.type === "stdout" || frame.type === "stderr") await this.#take(frame);
      this.#capped ||= frame.type === "truncated";
    }
    const run = await this.connection.json<Run>({ method: "GET", path: route("runs", runId) }, { signal: this.call.signal });
    const took = run.resource_usage
      ? run.resource_usage.wall_time_sec * 1000
      : Date.parse(run.finished_at ?? "") - Date.parse(run.started_at ?? "");
    let cwd = run.shell?.cwd;
    if (!cwd && run.session_id) { // the command never began; the session may have ended
      const ask: Ask = { method: "GET", path: route("sessions", run.session_id) };
      cwd = (await this.connection.json<{ cwd?: string }>(ask, { signal: this.call.signal }).catch(() => undefined))?.cwd;
    }
    return {
      exit_code: run.exit_code ?? 125, cwd: cwd || "/workspace", truncated: run.truncated ?? false,
      duration_ms: Math.round(took) || 0, run_id: run.id, shell: run.shell?.state, timed_out: run.phase === "timed_out",
      signal: run.signal, reason_code: run.reason_code, message: run.message, hint: run.hint, warnings: run.warnings,
    };
  }

  async #take(frame: OutputFrame): Promise<void> {
    this.#seq = frame.seq;
    this.#all.add(frame.data);
    this.#parts[frame.type].add(frame.data);
    try {
      await this.call.tell(this.onOutput, frame);
    } catch (error) {
      this.fault = { error };
      throw error;
    }
  }

  #result(done: Done): ExecResult {
    const [all, stdout, stderr] = [this.#all, this.#parts.stdout, this.#parts.stderr].map((e) => new Output(e.bytes(), e.truncated));
    return {
      exitCode: done.exit_code, cwd: done.cwd, truncated: this.#capped || done.truncated || all!.truncated,
      durationMs: done.duration_ms, runId: done.run_id, shell: done.shell ?? "kept", timedOut: done.timed_out,
      signal: done.signal ?? "", reason: done.reason_code ?? "", message: done.message ?? "", hint: done.hint ?? "",
      warnings: done.warnings ?? [], outputBytes: all!.bytes, output: all!.text, stdout: stdout!.text, stderr: stderr!.text,
    };
  }
}

// abandon cancels a command in the background after its caller has aborted the call. It finds an unknown run by the request's
// key. That would start a command that the server has not accepted yet.
function abandon(connection: Connection, ask: Ask, runId: string | undefined): void {
  const bound = { timeoutMs: 10_000 };
  const cancel = async (): Promise<void> => {
    if (runId === undefined) {
      const { chunks } = await connection.open(ask, bound);
      for await (const { name, data } of eventsOf(chunks())) {
        if (name === "start") runId = objectOf<{ run_id: string }>(data).run_id;
        break;
      }
    }
    if (runId !== undefined) await connection.json({ method: "POST", path: route("runs", runId, "cancel") }, bound);
  };
  connection.leave(cancel()); // if that fails, the command's own timeout ends it
}
