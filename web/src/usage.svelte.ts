// The current usage of a run or session, every two seconds while a page shows it. Neither the server nor the page keeps it.
import { NotFoundError, type UsageSample } from "belljar-sdk";
import { noteFailure } from "./client.svelte.ts";

const everyMs = 2000;
const kept = 60; // samples: two minutes

/**
 * watchUsage gathers samples while the calling component is shown, the page is visible, and `on` is true. It reads one sample of a stream and closes it: over
 * HTTP/1.1, a browser opens six connections to a server for all of its windows, and each visible page of a running program already keeps one for its log.
 */
export function watchUsage(
  stream: (signal: AbortSignal) => AsyncIterable<UsageSample>, on: () => boolean = () => true,
): { readonly samples: readonly UsageSample[]; readonly error: unknown } {
  let samples = $state.raw<readonly UsageSample[]>([]);
  let error = $state.raw<unknown>();
  let visible = $state(document.visibilityState === "visible");

  $effect(() => {
    const look = () => { visible = document.visibilityState === "visible"; };
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  });

  const wanted = $derived(on() && visible);
  $effect(() => {
    if (!wanted) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let waitMs = 1000;
    const ask = async () => {
      try {
        const sample = await first(stream(stop.signal));
        if (!sample || stop.signal.aborted) return;
        error = undefined;
        samples = [...samples, withPercent(samples.at(-1), sample)].slice(-kept);
        waitMs = 1000;
        timer = setTimeout(() => void ask(), everyMs);
      } catch (failure) {
        if (stop.signal.aborted || failure instanceof NotFoundError || noteFailure(failure)) return;
        error = failure;
        timer = setTimeout(() => void ask(), waitMs);
        waitMs = Math.min(waitMs * 2, 30_000);
      }
    };
    timer = setTimeout(() => void ask(), 200); // most runs have ended by then
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  });

  return { get samples() { return samples; }, get error() { return error; } };
}

async function first<T>(all: AsyncIterable<T>): Promise<T | undefined> {
  for await (const one of all) return one; // leaving the loop closes the stream
  return undefined;
}

// withPercent adds the CPU time since the sample before, which the first sample of a stream does not have.
function withPercent(before: UsageSample | undefined, now: UsageSample): UsageSample {
  const passed = before ? Date.parse(now.at) - Date.parse(before.at) : 0;
  const used = (now.cpu_time_ms ?? NaN) - (before?.cpu_time_ms ?? NaN);
  return passed > 0 && used >= 0 ? { ...now, cpu_percent: Math.round((1000 * used) / passed) / 10 } : now;
}
