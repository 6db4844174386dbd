import type { BelljarError } from "./error.js";

/**
 * Passing is a failure that may be temporary.
 * @internal
 */
export class Passing extends Error {
  constructor(
    /** The caller's error if it is not temporary. */
    readonly error: BelljarError,
    /** The earliest moment to try again, in milliseconds from now; 0 leaves it to this package. */
    readonly afterMs = 0,
    /** The maximum number of retries; 0 is no limit. */
    readonly most = 0,
    /** Whether the server has certainly not acted on the request. */
    readonly undone = false,
  ) {
    super(error.message);
  }

  /** Whether the server has not accepted the request. A 503 with the id of a run is from a server that stops after it has. */
  get refused(): boolean {
    return this.undone || (this.error.status === 503 && this.error.details["run_id"] === undefined);
  }
}

/**
 * unwrapped returns the caller's error for an error.
 * @internal
 */
export function unwrapped(error: unknown): unknown {
  return error instanceof Passing ? error.error : error;
}

/**
 * Tries is the retry budget of one operation. Its time starts at the first failure, because a single try may take longer.
 * @internal
 */
export class Tries {
  failures = 0;
  #unsure = 0; // failures that may be permanent
  #deadline: number | undefined; // on the monotonic clock, since the first failure

  constructor(
    public most: number,
    private patienceMs: number,
  ) {}

  /** again returns the pause before the next try in milliseconds; undefined if there is none. */
  again(error: Passing): number | undefined {
    if (error.most > 0 && ++this.#unsure > error.most) return undefined;
    if (this.failures >= this.most) return undefined;
    const now = performance.now();
    this.#deadline ??= now + this.patienceMs;
    const pause = pauseOf(error, this.failures++);
    return now + pause > this.#deadline ? undefined : pause;
  }

  /** progress resets the failures and sets a new patience, which alone bounds the retries from now on. */
  progress(patienceMs: number): void {
    this.failures = this.#unsure = 0;
    if (this.most > 0) this.most = Infinity;
    this.patienceMs = patienceMs;
    this.#deadline = undefined;
  }
}

const first = 200;
const longest = 30_000;

/**
 * pauseOf returns the pause in milliseconds after the given number of earlier failures: from 0.2 s, doubling, to
 * 30 s, give or take a tenth (docs/compatibility.md#frames). It is never less than the server asked for.
 * @internal
 */
export function pauseOf(error: Passing, failures: number): number {
  if (error.afterMs > 0) return error.afterMs * (1 + 0.1 * Math.random());
  return Math.min(first * 2 ** Math.min(failures, 10), longest) * (0.9 + 0.2 * Math.random());
}

/**
 * sleep waits, and rejects with the signal's reason once that is aborted.
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
