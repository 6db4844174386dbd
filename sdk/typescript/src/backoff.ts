import type { BelljarError } from "./error.js";

/**
 * Passing is a failure that may be over when the same is tried again.
 * @internal
 */
export class Passing extends Error {
  constructor(
    /** What the caller hears if it is not. */
    readonly error: BelljarError,
    /** The earliest moment to try, in milliseconds from now; 0 is ours to choose. */
    readonly afterMs = 0,
    /** How often it is worth it; 0 is no bound. */
    readonly most = 0,
    /** Whether the request has certainly not been carried out. */
    readonly undone = false,
  ) {
    super(error.message);
  }
}

/**
 * told is what a caller hears of an error.
 * @internal
 */
export function told(error: unknown): unknown {
  return error instanceof Passing ? error.error : error;
}

/**
 * Tries is how often something has failed in a row, and until when it is worth to go on.
 * @internal
 */
export class Tries {
  failures = 0;
  #unsure = 0; // of those, how many may never get better

  constructor(
    readonly most: number,
    /** Until when, on the clock that cannot be set: performance.now(). */
    public deadline: number,
  ) {}

  /** again says for how many milliseconds to wait before trying again; undefined if it is not worth it. */
  again(error: Passing): number | undefined {
    if (error.most > 0 && ++this.#unsure > error.most) return undefined;
    if (this.failures >= this.most) return undefined;
    const pause = pauseOf(error, this.failures++);
    return performance.now() + pause > this.deadline ? undefined : pause;
  }

  /** progress says that something has come of it. */
  progress(deadline: number): void {
    this.failures = this.#unsure = 0;
    this.deadline = deadline;
  }
}

const first = 200;
const longest = 30_000;

/**
 * pauseOf says how long to wait before trying again after the given number of earlier failures, in milliseconds: from
 * 0.2 s, doubling, to 30 s, give or take a tenth (docs/compatibility.md#frames); never less than the server asked for.
 * @internal
 */
export function pauseOf(error: Passing, failures: number): number {
  if (error.afterMs > 0) return error.afterMs * (1 + 0.1 * Math.random());
  return Math.min(first * 2 ** Math.min(failures, 10), longest) * (0.9 + 0.2 * Math.random());
}

/**
 * sleep waits, and rejects with the signal's reason if that is aborted first.
 * @internal
 */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    signal.addEventListener("abort", stop, { once: true });
  });
}
