// What a session uses, as the server measures it while somebody looks.
import { api, noteFailure } from "../../client.svelte.ts";

/** A measurement. */
export interface Sample {
  at: string;
  cpu_percent: number;
  memory_bytes: number;
  memory_limit_bytes?: number;
}

const most = 300;

export class Usage {
  /** Whether the server has such figures. */
  there = $state(false);
  samples: Sample[] = $state.raw([]);

  /** It measures while the component that makes it is shown. */
  constructor(session: () => string) {
    $effect(() => this.#follow(`/api/v1/sandbox/sessions/${encodeURIComponent(session())}/usage`));
  }

  #follow(path: string): () => void {
    let stream: EventSource | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let over = false;
    const connect = async () => {
      try {
        const url = await api().ticketUrl(path);
        if (over) return;
        stream = new EventSource(url);
      } catch (error) {
        if (!noteFailure(error)) again();
        return;
      }
      stream.addEventListener("usage", (event: MessageEvent<string>) => {
        this.there = true;
        this.samples = [...this.samples.slice(1 - most), JSON.parse(event.data) as Sample];
      });
      // A ticket is good once, so that the stream cannot come back by itself. One that never was is not there.
      stream.onerror = () => {
        stream?.close();
        if (this.there) again();
      };
    };
    const again = () => {
      if (!over) timer = setTimeout(() => void connect(), 3000);
    };
    void connect();
    return () => {
      over = true;
      clearTimeout(timer);
      stream?.close();
    };
  }
}
