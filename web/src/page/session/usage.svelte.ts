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
  samples: Sample[] = $state.raw([]);
  /** Whether the server gave no figures. */
  none = $state(false);

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
        this.none = false;
        this.samples = [...this.samples.slice(1 - most), JSON.parse(event.data) as Sample];
      });
      // A ticket is good once, so that the stream cannot come back by itself.
      stream.onerror = () => {
        stream?.close();
        this.none = this.samples.length === 0;
        again();
      };
    };
    const again = () => {
      if (!over) timer = setTimeout(() => void connect(), 5000);
    };
    void connect();
    return () => {
      over = true;
      clearTimeout(timer);
      stream?.close();
    };
  }
}
