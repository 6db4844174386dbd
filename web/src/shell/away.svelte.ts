// Whether the server answers. Every request of the page reports to this module.
import { send } from "../upload.ts";

export const away = $state({ since: 0, nextTry: 0 });
let waitMs = 1000;
let clock: number | undefined; // the server's time when performance.now() was 0: the latest reported one, since an answer may be old

/** now returns the server's time if the browser's clock differs. Use it to display or compare the server's times. */
export function now(): number {
  const [own, server] = [Date.now(), clock === undefined ? undefined : clock + performance.now()];
  return server === undefined || Math.abs(server - own) < 5000 ? own : server; // answers report whole seconds, with a delay
}

/** asked records whether the server has answered: the next attempt is after 1, 2, 4 … 30 s, with jitter. */
export function asked(answered: boolean): void {
  if (answered) {
    away.since = 0;
    waitMs = 1000;
    return;
  }
  away.since ||= Date.now();
  away.nextTry = Date.now() + waitMs * (0.9 + Math.random() * 0.2);
  waitMs = Math.min(waitMs * 2, 30_000);
}

/** answers checks whether the server answers. */
export const answers = (): Promise<boolean> =>
  fetch(new URL("../healthz", document.baseURI), { cache: "no-store", signal: AbortSignal.timeout(5000) }).then((r) => r.ok, () => false);

// The time limit for a request before a check of the server. Large or waiting requests take longer.
const patienceMs = 10_000;

/** watchedFetch is fetch that records every failure to reach the server. */
export const watchedFetch: typeof fetch = async (input, init) => {
  const late = setTimeout(async () => {
    if (!away.since && !(await answers()) && !away.since) asked(false);
  }, patienceMs);
  try {
    const answer = await send(input, init);
    if (away.since) asked(true);
    const offset = Date.parse(answer.headers.get("Date") ?? "") - performance.now();
    if (offset > (clock ?? -Infinity)) clock = offset;
    return answer;
  } catch (error) {
    if (!init?.signal?.aborted && !away.since) asked(false);
    throw error;
  } finally {
    clearTimeout(late);
  }
};
