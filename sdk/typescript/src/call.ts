import { CanceledError, InternalError, TimeoutError, type BelljarError } from "./error.js";

/** Options of every method. */
export interface CallOptions {
  /** Aborts the call. It then fails with {@link CanceledError}, or {@link TimeoutError} for `AbortSignal.timeout()`. */
  signal?: AbortSignal | undefined;
  /** The limit for the whole call, including retries, in milliseconds; none by default. */
  timeoutMs?: number | undefined;
}

const late = Symbol("late");
const closed = Symbol("closed");
const silent = Symbol("silent");

/**
 * closing is the abort reason of a client's own signal.
 * @internal
 */
export const closing: unknown = closed;

/**
 * Call is one call of a method: it ends on an abort, after its timeout, and when the client closes. Each call needs
 * exactly one end(), which removes its listeners from the signals.
 * @internal
 */
export class Call {
  readonly #controller = new AbortController();
  readonly #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #deaf: (() => void) | undefined;

  /** ended runs at the call's end: the client keeps track of its calls, and stops them when it closes. */
  constructor(
    options: CallOptions,
    readonly ended: () => void,
  ) {
    const given = options.signal;
    if (given?.aborted) this.stop(given.reason);
    else if (given) this.#deaf = listen(given, () => this.stop(given.reason));
    const most = options.timeoutMs;
    if (most !== undefined && most < 2 ** 31) this.#timer = setTimeout(() => this.stop(late), Math.max(most, 0));
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  stop(reason: unknown): void {
    this.#controller.abort(reason);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#deaf?.();
    this.ended();
  }

  /** tell passes a value to the caller's receiver, and waits for it while the call lasts. An error of the receiver stops the call. */
  async tell<T>(receive: ((value: T) => unknown) | undefined, value: T): Promise<void> {
    try {
      const received = receive?.(value);
      if (received) await raced(Promise.resolve(received), this.signal);
    } catch (error) {
      if (this.signal.aborted && error === this.signal.reason) throw this.over();
      this.stop(error); // the rest has no reader
      throw error;
    }
  }

  /** over returns the reason why the call has ended; undefined if it has not. */
  over(): BelljarError | undefined {
    return this.signal.aborted ? endOf(this.signal.reason) : undefined;
  }
}

/** The listeners of each signal. Node warns of more than ten listeners, and many calls may share one signal. */
const waiting = new WeakMap<AbortSignal, { stops: Set<() => void>; onAbort: () => void }>();

// listen calls stop when a signal is aborted. The returned function removes the listener.
function listen(signal: AbortSignal, stop: () => void): () => void {
  let room = waiting.get(signal);
  if (!room) {
    const stops = new Set<() => void>();
    room = { stops, onAbort: () => stops.forEach((each) => each()) };
    waiting.set(signal, room);
    signal.addEventListener("abort", room.onAbort, { once: true });
  }
  const { stops, onAbort } = room;
  stops.add(stop);
  return () => {
    if (!stops.delete(stop) || stops.size > 0) return;
    signal.removeEventListener("abort", onAbort);
    waiting.delete(signal);
  };
}

function endOf(reason: unknown): BelljarError {
  if (reason === late) return new TimeoutError({ code: "timeout", message: "the time for the call is over" });
  if (reason === closed) return new CanceledError({ code: "canceled", message: "the client is closed" });
  if (reason instanceof Error && reason.name === "TimeoutError") {
    return new TimeoutError({ code: "timeout", message: "the time for the call is over" }, { cause: reason });
  }
  return new CanceledError({ code: "canceled", message: "the call was cancelled" }, { cause: reason });
}

/**
 * Watch guards one request: it aborts it when its call ends, or when the server sends nothing for too long on its
 * turn.
 * @internal
 */
export class Watch {
  readonly #controller = new AbortController();
  readonly #onAbort: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly call: Call,
    readonly silenceMs: number,
  ) {
    this.#onAbort = () => this.#controller.abort(call.signal.reason);
    if (call.signal.aborted) this.#onAbort();
    else call.signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** silent reports whether the server has sent nothing for too long. */
  get silent(): boolean {
    return this.signal.reason === silent;
  }

  /** owe starts the server's turn, which may take moreMs longer. */
  owe(moreMs = 0): void {
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#controller.abort(silent), Math.min(this.silenceMs + moreMs, 2 ** 31 - 1));
  }

  /** mine starts the client's turn. */
  mine(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** end ends the watch. It cuts the rest of the request. */
  end(cut = true): void {
    this.mine();
    this.call.signal.removeEventListener("abort", this.#onAbort);
    if (cut) this.#controller.abort(silent);
  }
}

/**
 * raced waits for work, and rejects with the signal's reason once that is aborted.
 * @internal
 */
export function raced<T>(work: PromiseLike<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    const stop = (): void => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    void Promise.resolve(work).then(resolve, reject).then(() => signal.removeEventListener("abort", stop));
  });
}

/**
 * foreign is the error for an answer that is not from a Belljar.
 * @internal
 */
export function foreign(message: string, cause?: unknown): InternalError {
  return new InternalError(
    { code: "internal", message, hint: "check that this is the address of a belljar, and any proxy in front of it" },
    { cause },
  );
}
