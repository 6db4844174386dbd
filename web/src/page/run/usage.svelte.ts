// What a run uses now, once a second while somebody looks. The server keeps nothing of it, and neither does the page.
import { NotFoundError, type UsageSample } from "belljar-sdk";
import { api } from "../../client.svelte.ts";

const kept = 120; // samples: two minutes

/** watchUsage gathers samples while the component that calls it is shown, the page is visible, and `on` says so. */
export function watchUsage(runId: string, on: () => boolean): { readonly samples: readonly UsageSample[] } {
  let samples = $state.raw<readonly UsageSample[]>([]);
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
        for await (const sample of api().runs.usage(runId, { signal: stop.signal })) {
          samples = [...samples, sample].slice(-kept);
          waitMs = 1000;
        }
      } catch (error) {
        if (stop.signal.aborted || error instanceof NotFoundError) return;
        timer = setTimeout(() => void watch(), waitMs);
        waitMs = Math.min(waitMs * 2, 30_000);
      }
    };
    void watch();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  });

  return { get samples() { return samples; } };
}
