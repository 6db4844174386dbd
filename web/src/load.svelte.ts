// Asking the API from a page: what came, what went wrong, and when to ask again.
import { untrack } from "svelte";
import { noteFailure } from "./client.svelte.ts";
import { now as serverNow } from "./shell/away.svelte.ts";

/** The data that a page has received so far. */
export interface Loaded<T> {
  readonly value: T | undefined;
  readonly error: unknown;
  /** Whether a request is in progress. */
  readonly busy: boolean;
  /** reload sends a request now. */
  reload(): void;
}

/**
 * load sends requests while the calling component is shown: whenever a value that `ask` reads changes, and every `everyMs` while the page is visible. With
 * `first`, which is shown until an answer arrives, it does not send one at once. The last answer stays during a new request. An error stays until an
 * answer arrives.
 */
export function load<T>(ask: (signal: AbortSignal) => Promise<T>, options: { everyMs?: number | ((value: T | undefined) => number | undefined); first?: T | undefined } = {}): Loaded<T> {
  let value = $state.raw<T | undefined>(options.first);
  let error = $state.raw<unknown>();
  let busy = $state(true);
  let turn = $state(0);

  $effect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const next = () => {
      const every = typeof options.everyMs === "function" ? options.everyMs(value) : options.everyMs;
      if (every !== undefined && !stop.signal.aborted) timer = setTimeout(again, every);
    };
    const again = () => {
      if (document.visibilityState === "hidden") return next();
      busy = true;
      void once(ask(stop.signal));
    };
    const once = async (asked: Promise<T>) => {
      try {
        const answer = await asked;
        if (stop.signal.aborted) return;
        value = answer;
        error = undefined;
      } catch (failure) {
        if (stop.signal.aborted || noteFailure(failure)) return;
        error = failure;
      }
      busy = false;
      next();
    };
    if (turn === 0 && options.first !== undefined) {
      busy = false;
      next();
    } else {
      busy = true;
      void once(ask(stop.signal)); // here, so that Svelte tracks the values that it reads
    }
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  });

  return {
    get value() { return value; },
    get error() { return error; },
    get busy() { return busy; },
    reload() { untrack(() => turn++); }, // an effect that reloads does not depend on it
  };
}

/** clock returns the server's time, updated every second, for counters on the page. */
export function clock(): { readonly now: number } {
  let now = $state(serverNow());
  $effect(() => {
    const timer = setInterval(() => { now = serverNow(); }, 1000);
    return () => clearInterval(timer);
  });
  return { get now() { return now; } };
}
