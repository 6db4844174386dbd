/// <reference lib="esnext.disposable" preserve="true" />
import type { CallOptions } from "./call.js";
import { route } from "./connection.js";
import type { Content } from "./content.js";
import { Files } from "./files.js";
import type { RunResult } from "./result.js";
import { specOf, type RunOptions, type Runs, type StartOptions } from "./runs.js";
import { exec, type ExecOptions, type ExecResult } from "./shell.js";
import type { Doorway } from "./socket.js";
import type { Terminal } from "./terminal.js";
import type { Terminals, TerminalSpec } from "./terminals.js";
import type { Context, ContextSpec, Fork, NetworkSpec, Port, Preview, RunSpec, SessionState, Snapshot, StartedRun, TerminalState, UsageSample } from "./types.js";
import { watchUsage } from "./usage.js";

// Extra time for an answer that waits for the start of an interpreter.
const startMs = 60_000;

/** The parts of a session. */
interface Parts {
  doorway: Doorway;
  runs: Runs;
  terminals: Terminals;
}

/** Options for executing code. */
export interface CodeOptions extends RunOptions {
  /** python, ipython, javascript or bash; python by default. */
  language?: string | undefined;
  /** The name of a context, instead of the language's default context. */
  context?: string | undefined;
  /** If the context has lost its interpreter, first execute its earlier code again, without output. */
  replay?: boolean | undefined;
  /** The time limit for the code, in seconds. It is then interrupted, and the variables stay. */
  timeoutSec?: number | undefined;
  /** Its whole standard input. */
  stdin?: string | undefined;
}

/** A persistent sandbox: a workspace, a shell that keeps its state, terminals, runs. It expires when it is not used. */
export class Session {
  /** The session's id. */
  readonly id: string;
  /** The session's workspace. */
  readonly files: Files;
  /** Whether `sessions.open` has just created it. */
  readonly created: boolean;
  readonly #parts: Parts;

  /** @internal */
  constructor(parts: Parts, id: string, created = false) {
    this.#parts = parts;
    this.id = id;
    this.created = created;
    this.files = new Files(parts.doorway.connection, id);
  }

  /**
   * exec runs a command, or a whole script, in the session's shell. Directory, variables, functions and background jobs persist between commands.
   * Commands wait for each other.
   */
  exec(cmd: string, options: ExecOptions = {}): Promise<ExecResult> {
    return exec(this.#parts.doorway.connection, this.id, cmd, options);
  }

  /** write writes a file, and replaces an existing one. `files` has more options. */
  async write(path: string, content: Content, options: CallOptions = {}): Promise<void> {
    await this.files.write(path, content, { ...options, overwrite: true });
  }

  /** read returns a file's bytes, at most maxBytes of them; all by default. */
  read(path: string, options: CallOptions & { maxBytes?: number } = {}): Promise<Uint8Array> {
    return this.files.read(path, { signal: options.signal, timeoutMs: options.timeoutMs, limit: options.maxBytes });
  }

  /** run runs a program in this session to its end, outside of the shell. */
  async run(spec: RunSpec | string[], options?: RunOptions): Promise<RunResult> {
    return this.#parts.runs.run(this.#inside(spec), options);
  }

  /** start starts a program in this session and returns its run without waiting for its end. */
  async start(spec: RunSpec | string[], options?: StartOptions): Promise<StartedRun> {
    return this.#parts.runs.start(this.#inside(spec), options);
  }

  /**
   * code executes code in a context, an interpreter that keeps variables and imports from one call to the next. In the answer, `value` is the last
   * expression's value, `results` has all results, and `error` is the failure, if any.
   */
  code(code: string, { language = "python", context, replay, timeoutSec, stdin, ...options }: CodeOptions = {}): Promise<RunResult> {
    const name = context ?? ({ py: "python", js: "javascript", node: "javascript", sh: "bash" }[language] ?? language);
    return this.run({ code, language, context: name, replay, timeout_sec: timeoutSec, stdin }, options);
  }

  /** createContext starts a context, or returns the existing one of that name, which must have the same language and cwd. */
  createContext(spec: ContextSpec, options?: CallOptions): Promise<Context> {
    return this.#parts.doorway.connection.json({ method: "POST", path: route("sessions", this.id, "contexts"), json: spec, longerMs: startMs }, options);
  }

  /** contexts lists the session's contexts, sorted by name. */
  async contexts(options?: CallOptions): Promise<Context[]> {
    const { items } = await this.#ask<{ items: Context[] | null }>("GET", ["contexts"], options);
    return items ?? [];
  }

  /** restartContext ends a context's interpreter, runs and processes, and starts a new interpreter. */
  restartContext(name: string, options?: CallOptions): Promise<Context> {
    const path = route("sessions", this.id, "contexts", name, "restart");
    return this.#parts.doorway.connection.json({ method: "POST", path, json: {}, once: true, longerMs: startMs }, options);
  }

  /** deleteContext ends a context. A second call is not an error. */
  async deleteContext(name: string, options?: CallOptions): Promise<void> {
    await this.#ask("DELETE", ["contexts", name], options);
  }

  #inside(spec: RunSpec | string[]): RunSpec {
    return { ...specOf(spec), session_id: this.id };
  }

  /** usage yields the resource usage of the sandbox, about once a second, until the session ends. Watching does not extend the session's life. */
  usage(options?: CallOptions): AsyncGenerator<UsageSample> {
    return watchUsage(this.#parts.doorway.connection, route("sessions", this.id, "usage"), options);
  }

  /** terminal opens a terminal: a shell, an interpreter, an editor. */
  terminal(spec?: TerminalSpec, options?: CallOptions): Promise<Terminal> {
    return this.#parts.terminals.open(this.id, spec, options);
  }

  /** terminals lists the session's terminals, oldest first. */
  terminals(options?: CallOptions): Promise<TerminalState[]> {
    return this.#parts.terminals.list(this.id, options);
  }

  /** ports lists the ports that programs in this session listen on. `belljar session forward` reaches them from this machine. */
  async ports(options?: CallOptions): Promise<Port[]> {
    const { items } = await this.#ask<{ items: Port[] | null }>("GET", ["ports"], options);
    return items ?? [];
  }

  /** preview makes a host name at which browsers reach a port: `url`, and for a private one `token_url`, to open first. */
  preview(port: number, spec: { public?: boolean; ttlSec?: number } = {}, options?: CallOptions): Promise<Preview> {
    const json = { port, public: spec.public, ttl_sec: spec.ttlSec };
    return this.#parts.doorway.connection.json({ method: "POST", path: route("sessions", this.id, "previews"), json, once: true }, options);
  }

  /** previews lists the session's previews, oldest first, without their tokens. */
  async previews(options?: CallOptions): Promise<Preview[]> {
    const { items } = await this.#ask<{ items: Preview[] | null }>("GET", ["previews"], options);
    return items ?? [];
  }

  /** revokePreview ends a preview and its connections at once. */
  async revokePreview(label: string, options?: CallOptions): Promise<void> {
    await this.#parts.doorway.connection.json({ method: "DELETE", path: route("sessions", this.id, "previews", label), once: true }, options);
  }

  #ask<T>(method: "GET" | "DELETE", parts: string[], options?: CallOptions): Promise<T> {
    return this.#parts.doorway.connection.json<T>({ method, path: route("sessions", this.id, ...parts) }, options);
  }

  /** get returns the session's current state. */
  get(options?: CallOptions): Promise<SessionState> {
    return this.#parts.doorway.connection.json({ method: "GET", path: route("sessions", this.id) }, options);
  }

  /**
   * snapshot saves the files of the workspace. If the runtime can, it freezes programs meanwhile: `consistent` reports it. With `live` it also
   * saves memory and processes, on runtime gvisor.
   */
  snapshot(spec: { name?: string; live?: boolean } = {}, options?: CallOptions): Promise<Snapshot> {
    return this.#parts.doorway.connection.json({ method: "POST", path: route("sessions", this.id, "snapshots"), json: spec, once: true, longerMs: 600_000 }, options);
  }

  /**
   * fork makes copies: with the files, limits and network of this session, and the directory, variables and functions of its shell; without its
   * secrets, its scope and, unless `live`, its processes. It makes all of them or none.
   */
  async fork(count = 1, options?: CallOptions & { live?: boolean }): Promise<Session[]> {
    const made = await this.#parts.doorway.connection.json<Fork>(
      { method: "POST", path: route("sessions", this.id, "fork"), json: { count, live: options?.live }, once: true, longerMs: 600_000 }, options,
    );
    return made.sessions.map(({ session_id }) => new Session(this.#parts, session_id, true));
  }

  /**
   * hibernate saves the session, and removes the sandbox until the session is used again. If the runtime can, it saves the processes
   * (`hibernated.live` in the answer), else the files and the state of the shell. With `force` it ends everything that runs in the session;
   * without, a session in which anything runs is refused.
   */
  hibernate(spec: { force?: boolean } = {}, options?: CallOptions): Promise<SessionState> {
    return this.#parts.doorway.connection.json({ method: "POST", path: route("sessions", this.id, "hibernate"), json: spec, once: true, longerMs: 600_000 }, options);
  }

  /** network returns the session's current network rules. */
  network(options?: CallOptions): Promise<NetworkSpec> {
    return this.#parts.doorway.connection.json({ method: "GET", path: route("sessions", this.id, "network") }, options);
  }

  /** setNetwork changes the network rules at once, and cuts connections that the new rules do not allow. */
  setNetwork(spec: NetworkSpec, options?: CallOptions): Promise<NetworkSpec> {
    return this.#parts.doorway.connection.json({ method: "PUT", path: route("sessions", this.id, "network"), json: spec }, options);
  }

  /** destroy ends the session: it cancels its runs and removes its workspace. A second call is not an error. */
  async destroy(options?: CallOptions): Promise<void> {
    await this.#parts.doorway.connection.json({ method: "DELETE", path: route("sessions", this.id) }, options);
  }

  /** `await using session = …` destroys the session at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.destroy();
  }
}
