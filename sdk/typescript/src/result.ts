import { textOf, unbase64, utf8 } from "./bytes.js";
import { join } from "./connection.js";
import type { Result, Run, RunFailure, StartedRun } from "./types.js";

const half = 512 << 10;

/**
 * Excerpt keeps a stream's output: all of it up to 1 MiB, otherwise half of that from its beginning and half from its end. It
 * drops characters that the gap cuts through.
 * @internal
 */
export class Excerpt {
  #head: Uint8Array[] = [];
  #headSize = 0;
  #tail: Uint8Array[] = [];
  #tailSize = 0;
  #total = 0;

  add(bytes: Uint8Array): void {
    this.#total += bytes.length;
    const room = half - this.#headSize;
    if (room > 0) {
      const first = bytes.subarray(0, room);
      this.#head.push(first);
      this.#headSize += first.length;
      bytes = bytes.subarray(first.length);
    }
    if (bytes.length === 0) return;
    this.#tail.push(bytes);
    this.#tailSize += bytes.length;
    while (this.#tailSize - this.#tail[0]!.length >= half) this.#tailSize -= this.#tail.shift()!.length;
    if (this.#tail.length > 4096) this.#tail = [join(this.#tail, this.#tailSize)]; // merge many small pieces
  }

  get truncated(): boolean {
    return this.#total > 2 * half;
  }

  bytes(): Uint8Array {
    if (!this.truncated) return join([...this.#head, ...this.#tail]);
    const tail = join(this.#tail, this.#tailSize);
    return join([wholeEnd(join(this.#head, this.#headSize)), wholeStart(tail.subarray(tail.length - half))]);
  }
}

// wholeEnd removes an incomplete character at the end of UTF-8.
function wholeEnd(bytes: Uint8Array): Uint8Array {
  const start = bytes.length - 1 - [...bytes.subarray(-3)].reverse().findIndex((byte) => (byte & 0xc0) !== 0x80);
  const first = bytes[start] ?? 0;
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  return start + length > bytes.length ? bytes.subarray(0, start) : bytes;
}

// wholeStart removes an incomplete character at the start of UTF-8.
function wholeStart(bytes: Uint8Array): Uint8Array {
  return bytes.subarray(Math.max(bytes.subarray(0, 4).findIndex((byte) => (byte & 0xc0) !== 0x80), 0));
}

/**
 * Output is a program's output on one stream, as text or as bytes. The other form is made on first use.
 * @internal
 */
export class Output {
  #text: string | undefined;
  #bytes: Uint8Array | undefined;

  constructor(
    printed: string | Uint8Array,
    /** Whether the middle is missing. */
    readonly truncated: boolean,
  ) {
    if (typeof printed === "string") this.#text = printed;
    else this.#bytes = printed;
  }

  get bytes(): Uint8Array {
    return (this.#bytes ??= utf8(this.#text!));
  }

  /** text has U+FFFD for bytes that are not UTF-8. */
  get text(): string {
    return (this.#text ??= textOf(this.#bytes!));
  }
}

/** The outcome of a run, and its output. A program that fails is not an error: check {@link RunResult.ok}. */
export class RunResult {
  readonly #stdout: Output;
  readonly #stderr: Output;

  /** @internal */
  constructor(
    /** The run in the server's last answer. */
    readonly run: Run,
    stdout: Output,
    stderr: Output,
    /** The results of code in a context, in order. The program wrote them: never make their HTML part of a page. */
    readonly results: Result[] = [],
  ) {
    this.#stdout = stdout;
    this.#stderr = stderr;
  }

  /** The run's id. */
  get id(): string {
    return this.run.id;
  }
  /** The phase: completed, failed, killed or timed_out. */
  get phase(): Run["phase"] {
    return this.run.phase;
  }
  /** The program's exit status: 128+n if a signal ended it, null if it never started. */
  get exitCode(): number | null {
    return this.run.exit_code;
  }
  /** Whether the program exited with 0. */
  get ok(): boolean {
    return this.phase === "completed" && this.exitCode === 0;
  }
  /** Why the run did not complete, such as nonzero_exit, execution_timeout, cpu_time_exceeded, oom_killed; "" if it did. */
  get reason(): string {
    return this.run.reason_code ?? "";
  }
  /** The reason of a failed run, parsed from its output: type, message and frames; undefined if the output has none. */
  get failure(): RunFailure | undefined {
    return this.run.failure;
  }
  /** The compilation of the program: argv, exit_code, output …; undefined if there is none. */
  get build(): Run["build"] {
    return this.run.build;
  }
  /** A description of the outcome, for people; "" if there is none. */
  get message(): string {
    return this.run.message ?? "";
  }
  /** The next step; "" if there is no advice. */
  get hint(): string {
    return this.run.hint ?? "";
  }
  /** Problems that were not fatal, such as limits that are not enforced. */
  get warnings(): string[] {
    return this.run.warnings ?? [];
  }
  /** The mechanism that enforces each limit (cpu, memory, pids, disk, wall_time), or its substitute; absent if not enforced. */
  get limitsEnforced(): Record<string, string> {
    return this.run.limits_enforced ?? {};
  }
  /** The standard output as text. */
  get stdout(): string {
    return this.#stdout.text;
  }
  /** The standard error as text. */
  get stderr(): string {
    return this.#stderr.text;
  }
  /** The standard output as bytes. */
  get stdoutBytes(): Uint8Array {
    return this.#stdout.bytes;
  }
  /** The standard error as bytes. */
  get stderrBytes(): Uint8Array {
    return this.#stderr.bytes;
  }
  /** The value of the code's last expression in a context, as text; "" for none. */
  get value(): string {
    const text = this.results.filter((r) => r.type === "value").at(-1)?.data?.["text/plain"];
    return typeof text === "string" ? text : "";
  }
  /** The failure of code in a context: name, value, frames and traceback; undefined if it did not fail. */
  get error(): Result | undefined {
    return this.results.find((r) => r.type === "error");
  }
  /** Whether the middle of a stream is missing. `runs.frames` has the whole log, as far as the server kept it. */
  get truncated(): boolean {
    return this.#stdout.truncated || this.#stderr.truncated || this.run.truncated === true;
  }
}

/**
 * resultOf converts the complete answer to a run.
 * @internal
 */
export function resultOf(run: StartedRun): RunResult {
  return new RunResult(
    run as Run,
    outputOf(run.stdout, run.stdout_encoding, run.stdout_truncated),
    outputOf(run.stderr, run.stderr_encoding, run.stderr_truncated),
    run.results ?? [],
  );
}

const types = ["value", "display", "error", "input", "cut"];

/**
 * resultsOf parses the results in a log's lines.
 * @internal
 */
export function resultsOf(lines: string): Result[] {
  return lines.split("\n").slice(0, -1).flatMap((line) => {
    try {
      const result = JSON.parse(line) as Result;
      return types.includes(result?.type) ? [result] : [];
    } catch {
      return []; // not a result: the program may write anything
    }
  });
}

function outputOf(text = "", encoding?: string, truncated = false): Output {
  return new Output(encoding === "base64" ? unbase64(text) : text, truncated);
}
