/// <reference lib="esnext.disposable" preserve="true" />
import { Admin, Tokens } from "./admin.js";
import { Artifacts } from "./artifacts.js";
import type { CallOptions } from "./call.js";
import { Connection, route, type Ask } from "./connection.js";
import { invalid } from "./error.js";
import { Images } from "./images.js";
import type { LocalOptions, LocalServer } from "./local.js";
import { onNode, platform } from "./platform.js";
import type { RunResult } from "./result.js";
import { Runs, type RunOptions } from "./runs.js";
import { Secrets } from "./secrets.js";
import { Session } from "./session.js";
import { Sessions } from "./sessions.js";
import { Snapshots } from "./snapshots.js";
import { Templates } from "./templates.js";
import { Volumes } from "./volumes.js";
import { Doorway, type WebSocketLike } from "./socket.js";
import { Terminals } from "./terminals.js";
import { fetchTransport, type Transport } from "./transport.js";
import type { Discovery, Login, LoginCode, Me, NetworkCheck, NetworkPreset, NetworkQuery, RunSpec } from "./types.js";

/** The server's address, the caller's credentials, and the client's patience. */
export interface BelljarOptions {
  /** Address of the server, such as http://127.0.0.1:8080, or unix:/run/belljar.sock; by default that of `socketPath`, or `$BELLJAR_SERVER`. */
  baseUrl?: string | undefined;
  /** A unix socket on which the server listens; node only. */
  socketPath?: string | undefined;
  /** The API key; by default `$BELLJAR_API_KEY`. */
  apiKey?: string | undefined;
  /** A JWT instead of an API key. */
  token?: string | undefined;
  /** The image of runs and sessions that name none; by default `host`, the machine's own programs. */
  image?: string | undefined;
  /** The origin of requests in the server's audit trail; `typescript` by default. */
  source?: string | undefined;
  /** How long after its first failure a request is retried while the server is unreachable or asks for a pause, in milliseconds; 30,000 by default. 0 disables retries. */
  patienceMs?: number | undefined;
  /** The maximum number of retries of a request; 8 by default. A log that has begun is reopened for ten times `patienceMs`, however often. */
  maxRetries?: number | undefined;
  /** How long the server may send nothing while the client waits for an answer, in milliseconds; 60,000 by default. */
  silenceMs?: number | undefined;
  /** Sends requests instead of the global fetch, or of this package's own HTTP on node. */
  fetch?: typeof fetch | undefined;
  /** Opens WebSockets instead of the global WebSocket, or of this package's own on node. */
  WebSocket?: WebSocketLike | undefined;
  /** Carries requests in place of both, but not WebSockets. */
  transport?: Transport | undefined;
}

/**
 * A client of one server. Its idle connections do not keep a process from ending. Open terminals, inputs and logs do.
 */
export class Belljar {
  /** The caller's runs. */
  readonly runs: Runs;
  /** The caller's sessions. */
  readonly sessions: Sessions;
  /** The artifacts of runs. */
  readonly artifacts: Artifacts;
  /** The terminals in the caller's sessions. */
  readonly terminals: Terminals;
  /** The images on the server. */
  readonly images: Images;
  /** The secrets that the caller stores. */
  readonly secrets: Secrets;
  /** The saved files of sessions. */
  readonly snapshots: Snapshots;
  readonly templates: Templates;
  readonly volumes: Volumes;
  /** All users' runs, usage and quotas. For operators. */
  readonly admin: Admin;
  /** The API keys. For operators. */
  readonly tokens: Tokens;
  readonly #connection: Connection;
  #server: LocalServer | undefined;

  /** It does not contact the server yet. */
  constructor(options: BelljarOptions = {}) {
    const { baseUrl, socketPath } = placeOf(options);
    this.#connection = new Connection({
      baseUrl,
      name: socketPath ?? new URL(baseUrl).host,
      headers: headersOf(options),
      patienceMs: Math.max(options.patienceMs ?? 30_000, 0),
      maxRetries: Math.max(options.maxRetries ?? 8, 0),
      silenceMs: Math.min(options.silenceMs ?? 60_000, 2 ** 31 - 1), // the longest possible timer
      transport: async () => {
        if (options.transport) return options.transport;
        const own = !options.fetch && (onNode || socketPath !== undefined);
        return own ? (await platform()).httpTransport(socketPath) : fetchTransport(options.fetch);
      },
    });
    const doorway = new Doorway(this.#connection, options.WebSocket, socketPath);
    this.runs = new Runs(doorway, options.image ?? "host");
    this.terminals = new Terminals(doorway);
    this.artifacts = new Artifacts(this.#connection);
    this.images = new Images(this.#connection);
    this.secrets = new Secrets(this.#connection);
    this.snapshots = new Snapshots(this.#connection);
    this.templates = new Templates(this.#connection);
    this.volumes = new Volumes(this.#connection);
    this.admin = new Admin(this.#connection);
    this.tokens = new Tokens(this.#connection);
    const parts = { doorway, runs: this.runs, terminals: this.terminals };
    this.sessions = new Sessions(this.#connection, options.image, (id, created) => new Session(parts, id, created));
  }

  /**
   * local starts a private belljar on a socket, without a port or any setting. It ends with close(), and with this
   * process, even if that is killed. Node only.
   */
  static async local(options: LocalOptions & Omit<BelljarOptions, "baseUrl" | "socketPath" | "apiKey" | "token"> = {}): Promise<Belljar> {
    const server = await (await platform()).startLocal(options);
    const { baseUrl, socketPath, apiKey } = server;
    try {
      const belljar = new Belljar({ ...options, baseUrl, socketPath, apiKey });
      belljar.#server = server;
      belljar.#connection.exited = () => server.exited();
      belljar.#connection.met(); // it has announced itself
      return belljar;
    } catch (error) {
      await server.stop();
      throw error;
    }
  }

  /** run runs a program outside of a session and returns its result: `await belljar.run({ language: "python", code })`, or an array of arguments. */
  run(spec: RunSpec | string[], options?: RunOptions): Promise<RunResult> {
    return this.runs.run(spec, options);
  }

  /** me returns the caller, with the policy in force, the quotas and their usage. */
  me(options?: CallOptions): Promise<Me> {
    return this.#connection.json({ method: "GET", path: "/api/v1/sandbox/me" }, options);
  }

  /** runtimes returns the server's runtimes, with the reason for each that does not work. */
  runtimes(options?: CallOptions): Promise<Discovery> {
    return this.#connection.json({ method: "GET", path: "/api/v1/sandbox/runtimes" }, options);
  }

  /** checkNetwork returns whether a program could connect to a URL, and why, without connecting. */
  checkNetwork(query: NetworkQuery, options?: CallOptions): Promise<NetworkCheck> {
    return this.#connection.json({ method: "POST", path: "/api/v1/sandbox/network/check", json: query }, options);
  }

  /** networkPresets returns the indexes and hosts of each preset of `egress` in an image (default `host`), or why the preset cannot be used. */
  async networkPresets(query: { base_image?: string } = {}, options?: CallOptions): Promise<NetworkPreset[]> {
    const { items } = await this.#connection.json<{ items?: NetworkPreset[] | null }>(
      { method: "GET", path: "/api/v1/sandbox/network/presets", query, longerMs: 120_000 }, options,
    );
    return items ?? [];
  }

  /**
   * login signs in with a one-time code, or with an API key or JWT. The answer's token is the `token` of another client: it has the same
   * user and role, and expires after at most 12 hours. A code works once, so login does not repeat the request.
   */
  login(credential: { code: string } | { key: string }, options?: CallOptions): Promise<Login> {
    return this.#connection.json({ method: "POST", path: route("login"), json: credential, once: true }, options);
  }

  /** logout ends the sign-in of this client's token. */
  async logout(options?: CallOptions): Promise<void> {
    await this.#connection.json({ method: "DELETE", path: route("login"), once: true }, options);
  }

  /** loginLink makes a one-time code for this client's user, and a link to the web page that signs in with it. It works once, within 5 minutes. */
  loginLink(options?: CallOptions): Promise<LoginCode> {
    return this.#connection.json({ method: "POST", path: route("login", "codes"), once: true }, options);
  }

  /**
   * ticketUrl returns an address with a ticket in it, which works once, within a minute. It is for code that cannot set headers, such as
   * `new EventSource(await belljar.ticketUrl("/api/v1/sandbox/runs/…/logs"))`, and for download links. The ticket is for this path
   * and query. Segments of the path are percent-encoded.
   */
  ticketUrl(path: string, query: Record<string, string | number> = {}, options?: CallOptions): Promise<string> {
    return this.#connection.ticketUrl(path, query, options);
  }

  /**
   * request sends a request for which this package has no method. It repeats only safe requests: GET, PUT and DELETE, and POST with an
   * Idempotency-Key.
   */
  request<T = unknown>(
    method: string,
    path: string,
    options: CallOptions & { query?: Ask["query"]; json?: unknown; headers?: Record<string, string> } = {},
  ): Promise<T> {
    const once = !["GET", "HEAD", "PUT", "DELETE"].includes(method) && !options.headers?.["Idempotency-Key"];
    const { query, json, headers } = options;
    if (!path.startsWith("/")) throw invalid("path", `path "${path}" does not begin with a slash`);
    return this.#connection.json<T>({ method, path, query, json, headers, once }, options);
  }

  /** The process id of a private belljar; undefined for any other. */
  get pid(): number | undefined {
    return this.#server?.pid;
  }

  /** close ends all calls and connections, and a local belljar with all its sandboxes. A second call is not an error. */
  async close(): Promise<void> {
    await this.#connection.close();
    await this.#server?.stop();
  }

  /** `await using belljar = …` closes the client at the end of the block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** @internal */
  get connection(): Connection {
    return this.#connection;
  }
}

function placeOf(options: BelljarOptions): { baseUrl: string; socketPath?: string } {
  const given = options.baseUrl ?? (options.socketPath ? "http://belljar" : environment("BELLJAR_SERVER"));
  if (given === undefined) throw invalid("baseUrl", "baseUrl is missing", "it looks like http://127.0.0.1:8080");
  if (given.startsWith("unix:") && given.length > 5) return { baseUrl: "http://belljar", socketPath: given.slice(5) };
  let url: URL | undefined;
  try {
    url = new URL(given);
  } catch {
    // reported below
  }
  const wrong = !url || !/^https?:$/.test(url.protocol) || url.search || url.hash;
  if (url?.username || url?.password || (wrong && given.includes("@"))) { // the error must not repeat a password
    throw invalid("baseUrl", "the address of the server has a user or a password", "leave it out, and give an API key");
  }
  if (!url || wrong) {
    throw invalid("baseUrl", `"${given}" is not the address of a server`, "it looks like http://127.0.0.1:8080");
  }
  return { baseUrl: (url.origin + url.pathname).replace(/(\/api\/v1\/sandbox)?\/*$/, "").replace(/\/+$/, ""), ...(options.socketPath ? { socketPath: options.socketPath } : {}) };
}

function headersOf(options: BelljarOptions): Record<string, string> {
  const key = (options.apiKey ?? (options.token === undefined ? environment("BELLJAR_API_KEY") : undefined))?.trim(); // a file of a key ends with a line break
  const token = options.token?.trim();
  if (key !== undefined && token !== undefined) throw invalid("token", "give an API key or a token, not both");
  for (const [field, name, text] of [["apiKey", "the API key", key], ["apiKey", "the API key", token], ["source", "the source", options.source]] as const) {
    if (text !== undefined && !/^[\x20-\x7e]*$/.test(text)) throw invalid(field, `${name} is not a line of plain characters`);
  }
  return {
    ...(key ? { "X-API-KEY": key } : {}),
    ...(token ? { Authorization: `Bearer ${token}` } : {}),
    "X-Belljar-Source": options.source ?? "typescript",
  };
}

function environment(name: string): string | undefined {
  return (onNode && process.env[name]) || undefined;
}
