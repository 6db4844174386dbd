// What a session uses, as the server measures it while somebody looks.
import type { Session, UsageSample } from "belljar-sdk";
import { noteFailure } from "../../client.svelte.ts";

const kept = 120; // samples: two minutes

export class Usage {
  samples: readonly UsageSample[] = $state.raw([]);
  error: unknown = $state.raw();

  /** It measures while the component that makes it is shown. */
  constructor(session: () => Session) {
    $effect(() => {
      const stop = new AbortController();
      void this.#follow(session(), stop.signal);
      return () => stop.abort();
    });
  }

  async #follow(session: Session, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        for await (const sample of session.usage({ signal })) {
          this.error = undefined;
          this.samples = [...this.samples.slice(1 - kept), sample];
        }
        return; // the session has ended
      } catch (error) {
        if (signal.aborted || noteFailure(error)) return;
        this.error = error;
      }
      await new Promise((resolve) => setTimeout(resolve, 3000));
    }
  }
}
