// The current usage of a run or session, once a second while a page shows it. Neither the server nor the page keeps it.
import { NotFoundError, type UsageSample } from "belljar-sdk";
import { noteFailure } from "./client.svelte.ts";

const kept = 120; // samples: two minutes

/** watchUsage gathers samples while the calling component is shown, the page is visible, and `on` is true. */
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
    const watch = async () => {
      try {
        for await (const sample of stream(stop.signal)) {
          error = undefined;
          samples = [...samples, sample].slice(-kept);
          waitMs = 1000;
        }
      } catch (failure) {
        if (stop.signal.aborted || failure instanceof NotFoundError || noteFailure(failure)) return;
        error = failure;
        timer = setTimeout(() => void watch(), waitMs);
        waitMs = Math.min(waitMs * 2, 30_000);
      }
    };
    timer = setTimeout(() => void watch(), 200); // most runs have ended by then
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  });

  return { get samples() { return samples; }, get error() { return error; } };
}
