// Measures the overhead of this package over plain fetch of the same route, in the same run:
// `npm run bench`.
import { Belljar } from "belljar-sdk";
import { serve } from "./world.js";

const rounds = Number(process.argv[2] ?? 1000);

function quantile(times: number[], q: number): number {
  return [...times].sort((a, b) => a - b)[Math.floor(times.length * q)]!;
}

/** compare measures two ways in turns, so that both run under the same load. */
async function compare(what: string, plain: () => Promise<unknown>, ours: () => Promise<unknown>, times = rounds): Promise<void> {
  for (let i = 0; i < 50; i++) await Promise.all([plain(), ours()]);
  const [a, b]: [number[], number[]] = [[], []];
  for (let i = 0; i < times; i++) {
    for (const [way, into] of i % 2 ? ([[plain, a], [ours, b]] as const) : ([[ours, b], [plain, a]] as const)) {
      const begun = performance.now();
      await way();
      into.push(performance.now() - begun);
    }
  }
  const row = [0.5, 0.95].map((q) => `p${q * 100} ${quantile(a, q).toFixed(3)} ms plain, ${quantile(b, q).toFixed(3)} ms belljar, ${(quantile(b, q) - quantile(a, q)).toFixed(3)} ms more`);
  console.log(`${what}: ${row.join("; ")}`);
}

const ends: (() => unknown)[] = [];
const server = await serve({ after: (end) => ends.push(end) });
const belljar = new Belljar({ baseUrl: server.url, apiKey: server.apiKey });
const headers = { "X-API-KEY": server.apiKey, "Content-Type": "application/json" };

// Requests that create something carry a key in both cases, because keys cost the server time.
const ask = async (method: string, path: string, body?: unknown, key = false): Promise<unknown> => {
  const named = key ? { ...headers, "Idempotency-Key": crypto.randomUUID() } : headers;
  const response = await fetch(server.url + path, { method, headers: named, ...(body ? { body: JSON.stringify(body) } : {}) });
  return response.json();
};

const session = await belljar.sessions.create();
await compare("GET /me", () => ask("GET", "/api/v1/sandbox/me"), () => belljar.me());
await session.write("f", "x".repeat(1000));
await compare("fs/stat", () => ask("POST", `/api/v1/sandbox/sessions/${session.id}/fs/stat`, { path: "f" }), () => session.files.stat("f"));
const spec = { spec_version: "1.1", session_id: session.id, command: ["true"] };
await compare("a run in a session, waited for", () => ask("POST", "/api/v1/sandbox/runs?wait=30s", spec, true), () => session.run(["true"]), rounds / 4);
await compare("the same without a key, of the plain one", () => ask("POST", "/api/v1/sandbox/runs?wait=30s", spec), () => session.run(["true"]), rounds / 4);
await compare("a command of the shell", () => ask("POST", `/api/v1/sandbox/sessions/${session.id}/shell`, { cmd: ":" }, true), () => session.exec(":"), rounds / 4);
const once = { spec_version: "1.1", base_image: "host", command: ["true"] };
await compare("a one-shot run", () => ask("POST", "/api/v1/sandbox/runs?wait=30s", once, true), () => belljar.run(["true"]), rounds / 10);
const small = await belljar.run(["sh", "-c", "yes 0123456789abcde | head -c 20000000"]);
const begun = performance.now();
let bytes = 0;
for await (const frame of belljar.runs.output(small.id)) bytes += frame.text.length;
console.log(`a log of ${bytes} bytes: ${(bytes / 1e6 / ((performance.now() - begun) / 1000)).toFixed(0)} MB/s`);

await session.destroy();
await belljar.close();
for (const end of ends) await end();
