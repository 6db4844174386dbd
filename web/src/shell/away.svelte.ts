// Whether the server answers. Every request of the page reports here.
import { send } from "../upload.ts";

export const away = $state({ since: 0, nextTry: 0 });
let waitMs = 1000;
let clock: number | undefined; // the server's, when performance.now() was 0: the latest that an answer told, since one may be old

/** now is the time by the server's clock where the browser's is another: what is shown and decided by the server's times needs that. */
export function now(): number {
  const [own, server] = [Date.now(), clock === undefined ? undefined : clock + performance.now()];
  return server === undefined || Math.abs(server - own) < 5000 ? own : server; // answers tell seconds, and take some
}

/** asked notes whether the server has answered: 1, 2, 4 … 30 s until it is asked again, with jitter. */
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

/** answers asks the server whether it is there. */
export const answers = (): Promise<boolean> =>
  fetch(new URL("../healthz", document.baseURI), { cache: "no-store", signal: AbortSignal.timeout(5000) }).then((r) => r.ok, () => false);

// How long a request may take before the server is asked whether it is there. Some take longer: what is large, or waits.
const patienceMs = 10_000;

/** watchedFetch is fetch, with every failure to reach the server noted. */
export const watchedFetch: typeof fetch = async (input, init) => {
  const late = setTimeout(async () => {
    if (!away.since && !(await answers()) && !away.since) asked(false);
  }, patienceMs);
  try {
    const answer = await send(input, init);
    if (away.since) asked(true);
    const told = Date.parse(answer.headers.get("Date") ?? "") - performance.now();
    if (told > (clock ?? -Infinity)) clock = told;
    return answer;
  } catch (error) {
    if (!init?.signal?.aborted && !away.since) asked(false);
    throw error;
  } finally {
    clearTimeout(late);
  }
};
