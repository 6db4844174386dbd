// Real servers for tests, of this package and of the web page.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

/** The program under test. */
export const binary = resolve(process.env["BELLJAR_BIN"] ?? "../../bin/belljar");

/** limitMs limits every wait. Only a hang takes that long. */
export const limitMs = 120_000;

/** A scope with an end: a test, or a file of tests. */
export interface Owner {
  after(end: () => unknown): void;
}

const ends = new WeakMap<Owner, (() => unknown)[]>();

/** atEnd registers a cleanup for an owner's end. Cleanups run in reverse order, and all of them run even if one fails. */
export function atEnd(owner: Owner, end: () => unknown): void {
  const known = ends.get(owner);
  if (known) return void known.push(end);
  const all = [end];
  ends.set(owner, all);
  owner.after(async () => {
    let fault: { error: unknown } | undefined;
    for (let next = all.pop(); next; next = all.pop()) {
      try {
        await next();
      } catch (error) {
        fault ??= { error };
      }
    }
    if (fault) throw fault.error;
  });
}

/** tempDir returns a folder that is removed after the test. */
export function tempDir(t: Owner, below = tmpdir()): string {
  const dir = mkdtempSync(join(below, "bj-ts-"));
  atEnd(t, () => rmSync(dir, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 }));
  return dir;
}

/** within fails if a promise takes too long. */
export async function within<T>(what: string, promise: Promise<T>, ms = limitMs): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took more than ${ms} ms`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** until waits until a condition holds. */
export async function until(what: string, so: () => boolean | Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + limitMs; !(await so()); ) {
    if (Date.now() > deadline) throw new Error(`${what} did not come about`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** A real server on a port. */
export interface Server {
  url: string;
  apiKey: string;
  data: string;
  process: ChildProcess;
  /** kill ends it with SIGKILL. */
  kill(): Promise<void>;
}

export const apiKey = "a-key-for-tests-0123456789";

/** patient is the settings of a belljar on a busy machine. */
export const patient = { image_pull: "never", default_startup_timeout_sec: 300, default_exec_timeout_sec: 300, queue_ttl_sec: 900, cancel_grace_seconds: 60 };

// The caller's environment is for other servers.
for (const name of Object.keys(process.env)) {
  if (/^(SANDBOX_|DOCKER_|BELLJAR_SERVER$|BELLJAR_API_KEY$)|_proxy$/i.test(name)) delete process.env[name];
}

/** serve starts a real belljar on a port. It ends its sessions when it stops, unless `set` states otherwise. */
export async function serve(t: Owner, options: { data?: string; listen?: string; set?: string[] } = {}): Promise<Server> {
  const data = options.data ?? tempDir(t);
  const usual = Object.entries({ ...patient, end_sessions: true }).map(([name, value]) => `${name}=${value}`);
  const set = [...usual, ...(options.set ?? [])].flatMap((s) => ["--set", s]);
  const child = spawn(binary, ["serve", "--json", "--listen", options.listen ?? "127.0.0.1:0", "--data", data, ...set], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, SANDBOX_API_KEY: apiKey },
  });
  const gone = once(child, "close");
  const kill = async (signal: NodeJS.Signals): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    await gone;
  };
  atEnd(t, async () => {
    child.kill("SIGTERM"); // the second SIGTERM makes it stop without waiting
    await kill("SIGTERM");
  });
  let log = "";
  child.stderr.on("data", (d: Buffer) => (log = (log + d.toString()).slice(-4000)));
  let out = "";
  for await (const piece of child.stdout) {
    out += String(piece);
    if (out.includes("\n")) break;
  }
  child.stdout.resume();
  if (!out.includes("\n")) throw new Error(`${binary} did not start: ${log}`);
  const { url, listen } = JSON.parse(out.slice(0, out.indexOf("\n"))) as { url?: string; listen?: string };
  return { url: url ?? `http://${listen}`, apiKey, data, process: child, kill: () => kill("SIGKILL") };
}
