import { spawn, type ChildProcess } from "node:child_process";
import type { Socket } from "node:net";
import { RuntimeUnavailableError } from "../error.js";
import type { LocalOptions, LocalServer } from "../local.js";

interface Ready {
  socket: string;
  base_url: string;
  api_key: string;
  pid: number;
  version: string;
}

const keptLog = 8 << 10;
const partingMs = 20_000;

/** startLocal starts `belljar serve --private`, which exits when its standard input closes: at the latest when this process ends. */
export async function startLocal(options: LocalOptions): Promise<LocalServer> {
  const binary = options.binary ?? (process.env["BELLJAR_BIN"] || "belljar");
  const args = ["serve", "--private"];
  if (options.data !== undefined) args.push("--data", options.data);
  for (const [name, value] of Object.entries(options.set ?? {})) args.push("--set", `${name}=${value}`);
  // A process session of its own keeps Ctrl-C from reaching the server, which this process may still need.
  const child = spawn(binary, args, { stdio: "pipe", detached: true, env: { ...process.env, ...options.env } });
  const log = new Log(options.log);
  child.stderr.on("data", (data: Buffer) => log.add(data));
  child.stdin.on("error", () => {}); // the exit event reports the end
  const gone = new Promise<void>((resolve) => {
    child.once("error", () => resolve());
    child.once("close", () => resolve());
  });
  let ready: Ready;
  try {
    ready = await answer(child, Math.min(options.startTimeoutMs ?? 30_000, 2 ** 31 - 1));
  } catch (error) {
    child.kill("SIGKILL");
    await gone;
    throw new RuntimeUnavailableError(
      {
        code: "runtime_unavailable",
        message: `${binary} could not be started: ${log.complaint ?? (error instanceof Error ? error.message : String(error))}`,
        details: { binary, log: log.kept },
        hint: (error as { code?: unknown }).code === "ENOENT" ? "install belljar, or name the program: option binary, or $BELLJAR_BIN" : log.hint,
      },
      { cause: error },
    );
  }
  // From now on the server must not keep this process from ending.
  child.unref();
  for (const stream of [child.stdin, child.stdout, child.stderr]) (stream as unknown as Socket).unref();
  child.stdout.resume();
  return {
    baseUrl: ready.base_url, socketPath: ready.socket, apiKey: ready.api_key, pid: ready.pid, version: ready.version,
    stop: () => stop(child, gone),
    exited: () => (ended(child) ? exitOf(binary, log) : undefined),
  };
}

function ended(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

function exitOf(binary: string, log: Log): RuntimeUnavailableError {
  return new RuntimeUnavailableError({
    code: "runtime_unavailable",
    message: `${binary} has ended${log.last ? ` after saying "${log.last}"` : ""}`,
    details: { binary, log: log.kept },
    hint: "start another one with Belljar.local(); what ran in this one has ended",
  });
}

// answer waits for the line that announces that the server is ready.
function answer(child: ChildProcess, timeoutMs: number): Promise<Ready> {
  return new Promise((resolve, reject) => {
    let text = "";
    const timer = setTimeout(() => reject(new Error(`it was not ready within ${timeoutMs / 1000} s`)), timeoutMs);
    const settle = (error: Error | undefined, ready?: Ready): void => {
      clearTimeout(timer);
      child.stdout!.off("data", read);
      if (error) reject(error);
      else resolve(ready!);
    };
    const read = (data: Buffer): void => {
      text += data.toString();
      if (!text.includes("\n")) return;
      try {
        const ready = JSON.parse(text.slice(0, text.indexOf("\n"))) as Ready;
        if (typeof ready.socket !== "string") throw new Error("its first line is unexpected");
        settle(undefined, ready);
      } catch (error) {
        settle(error as Error);
      }
    };
    child.stdout!.on("data", read);
    child.once("error", (error) => settle(error));
    child.once("close", (code, signal) => settle(new Error(`it ended at once (${signal ?? code})`)));
  });
}

async function stop(child: ChildProcess, gone: Promise<void>): Promise<void> {
  if (ended(child)) return;
  child.ref();
  child.stdin!.end();
  const timers = [
    setTimeout(() => child.kill("SIGTERM"), partingMs),
    setTimeout(() => child.kill("SIGKILL"), 2 * partingMs),
  ];
  await gone;
  for (const timer of timers) clearTimeout(timer);
}

/** Log keeps the end of the program's log, and passes on its lines. */
class Log {
  kept = "";
  #line = "";

  constructor(readonly tell: ((line: string) => void) | undefined) {}

  add(data: Buffer): void {
    const text = data.toString();
    this.kept = (this.kept + text).slice(-keptLog);
    if (!this.tell) return;
    const lines = (this.#line + text).split("\n");
    this.#line = lines.pop()!;
    for (const line of lines) this.tell(line);
  }

  /** complaint is the program's own reason for a failed start. */
  get complaint(): string | undefined {
    return /^belljar: (.*)/m.exec(this.kept)?.[1];
  }

  /** last is the program's last output. */
  get last(): string {
    return (/^(?:panic|fatal error): .*/m.exec(this.kept)?.[0] ?? this.kept.trim().split("\n").at(-1))!;
  }

  /** hint returns the program's own hint, or a default. */
  get hint(): string {
    return /hint: (.*)/.exec(this.kept)?.[1] ?? "details.log has its output";
  }
}
