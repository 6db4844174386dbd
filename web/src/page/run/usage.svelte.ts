// What a run uses now: GET /runs/{id}/usage, server-sent events `usage`, once a second. Nothing else knows this contract.
import { api } from "../../client.svelte.ts";

/** What a run, or a session, used at a moment. A figure that cannot be measured is absent. */
export interface Sample {
  at: string;
  /** session if a session's runs share the sandbox: the figures are those of all. */
  scope?: "run" | "session";
  /** Of one core. */
  cpu_percent?: number;
  memory_bytes?: number;
  memory_limit_bytes?: number;
}

const kept = 120; // samples: two minutes

/** watchUsage gathers samples while the component that calls it is shown, the page is visible, and `on` says so. */
export function watchUsage(runId: string, on: () => boolean): { readonly samples: readonly Sample[] } {
  let samples = $state.raw<readonly Sample[]>([]);
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
    let source: EventSource | undefined;
    let waitMs = 1000;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const open = async () => {
      // A ticket is good once, so that the browser's own attempts to connect again would fail.
      const url = await api().ticketUrl(`/api/v1/sandbox/runs/${encodeURIComponent(runId)}/usage`, {}, { signal: stop.signal }).catch(() => undefined);
      if (stop.signal.aborted || !url) return;
      source = new EventSource(url);
      let heard = false;
      source.addEventListener("usage", (event) => {
        heard = true;
        waitMs = 1000;
        try {
          samples = [...samples, JSON.parse(event.data) as Sample].slice(-kept);
        } catch {
          source?.close(); // not a server that has this
        }
      });
      source.addEventListener("end", () => source?.close());
      source.onerror = () => {
        const gone = source?.readyState === EventSource.CLOSED && !heard;
        source?.close();
        if (gone && samples.length === 0) return; // the server does not have it
        timer = setTimeout(open, waitMs);
        waitMs = Math.min(waitMs * 2, 30_000);
      };
    };
    void open();
    return () => {
      stop.abort();
      source?.close();
      clearTimeout(timer);
    };
  });

  return { get samples() { return samples; } };
}
