import { textOf, unbase64, utf8 } from "./bytes.js";
import { join } from "./connection.js";
import type { Result, Run, RunFailure, StartedRun } from "./types.js";

const half = 512 << 10;

/**
 * Excerpt keeps a stream's output: all of it up to 1 MiB, else half of that from its beginning and half from its end.
 * It drops the characters that the gap would split.
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
    if (this.#tail.length > 4096) this.#tail = [join(this.#tail, this.#tailSize)]; // for many small pieces
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

// wholeEnd drops an incomplete character at the end of UTF-8.
function wholeEnd(bytes: Uint8Array): Uint8Array {
  const start = bytes.length - 1 - [...bytes.subarray(-3)].reverse().findIndex((byte) => (byte & 0xc0) !== 0x80);
  const first = bytes[start] ?? 0;
  const length = first < 0xc2 || first > 0xf4 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2; // other bytes begin no character
  return start + length > bytes.length ? bytes.subarray(0, start) : bytes;
}

// wholeStart drops an incomplete character at the start of UTF-8.
function wholeStart(bytes: Uint8Array): Uint8Array {
  return bytes.subarray(Math.max(bytes.subarray(0, 4).findIndex((byte) => (byte & 0xc0) !== 0x80), 0));
}

/**
 * Output is a program's output on one stream, as text or as bytes; it makes the other form on first use.
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

/** The outcome and output of a run. A program that fails is not an error: see {@link RunResult.ok}. */
export class RunResult {
  readonly #stdout: Output;
  readonly #stderr: Output;

  /** @internal */
  constructor(
    /** The run as in the server's answer. */
    readonly run: Run,
    stdout: Output,
    stderr: Output,
    /** The results of code in a context, in order. They come from the program: never make their HTML part of a page. */
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
  /** Whether the program ended with exit code 0. */
  get ok(): boolean {
    return this.phase === "completed" && this.exitCode === 0;
  }
  /** Why it did not complete normally, such as nonzero_exit, execution_timeout, cpu_time_exceeded, oom_killed; "" if it did. */
  get reason(): string {
    return this.run.reason_code ?? "";
  }
  /** The failure reason in the output of a failed run: type, message and frames; undefined if the output has none. */
  get failure(): RunFailure | undefined {
    return this.run.failure;
  }
  /** The compilation of the program: argv, exit_code, output …; undefined if there was none. */
  get build(): Run["build"] {
    return this.run.build;
  }
  /** The reason, for people; "" if there is none. */
  get message(): string {
    return this.run.message ?? "";
  }
  /** The next thing to do; "" if there is no advice. */
  get hint(): string {
    return this.run.hint ?? "";
  }
  /** Problems that were not fatal, such as limits that are not enforced. */
  get warnings(): string[] {
    return this.run.warnings ?? [];
  }
  /** The mechanism that enforces each limit (cpu, memory, pids, disk, wall_time), or its substitute. A limit that is not enforced is absent. */
  get limitsEnforced(): Record<string, string> {
    return this.run.limits_enforced ?? {};
  }
  /** The standard output, as text. */
  get stdout(): string {
    return this.#stdout.text;
  }
  /** The standard error, as text. */
  get stderr(): string {
    return this.#stderr.text;
  }
  /** The standard output, as bytes. */
  get stdoutBytes(): Uint8Array {
    return this.#stdout.bytes;
  }
  /** The standard error, as bytes. */
  get stderrBytes(): Uint8Array {
    return this.#stderr.bytes;
  }
  /** The value of the code's last expression in a context, as text; "" for none. */
  get value(): string {
    const text = this.results.filter((r) => r.type === "value").at(-1)?.data?.["text/plain"];
    return typeof text === "string" ? text : "";
  }
  /** The failure of code in a context: name, value, frames and traceback; undefined if it succeeded. */
  get error(): Result | undefined {
    return this.results.find((r) => r.type === "error");
  }
  /** Whether the middle of stdout or stderr is missing. The whole log is in `runs.frames`, as far as the server kept it. */
  get truncated(): boolean {
    return this.#stdout.truncated || this.#stderr.truncated || this.run.truncated === true;
  }
}

/**
 * resultOf makes a result from the answer to a run with wait.
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
      return []; // the program sent an invalid result
    }
  });
}

function outputOf(text = "", encoding?: string, truncated = false): Output {
  return new Output(encoding === "base64" ? unbase64(text) : text, truncated);
}
