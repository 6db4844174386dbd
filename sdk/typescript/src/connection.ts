import { Passing, sleep, unwrapped, Tries } from "./backoff.js";
import { wellFormed } from "./bytes.js";
import { Call, closing, foreign, Watch, type CallOptions } from "./call.js";
import { CanceledError, invalid, RuntimeUnavailableError, type BelljarError } from "./error.js";
import { failureOf, strangerOf } from "./failure.js";
import type { Answer, RequestBody, Transport } from "./transport.js";

/** The part of the client's options that affects requests. */
export interface ConnectionOptions {
  baseUrl: string;
  headers: Record<string, string>;
  patienceMs: number;
  maxRetries: number;
  silenceMs: number;
  /** The server's name in messages. */
  name: string;
  transport: () => Promise<Transport>;
}

/** Ask is one request to the server. */
export interface Ask {
  method: string;
  path: string;
  query?: Record<string, Value> | URLSearchParams | undefined;
  headers?: Record<string, string> | undefined;
  /** Sent as JSON. */
  json?: unknown;
  body?: RequestBody | undefined;
  /** Do not repeat the request after a failure, unless the server has certainly not acted on it. */
  once?: boolean | undefined;
  /** Extra time for the answer, in milliseconds. */
  longerMs?: number | undefined;
  /** Set by the connection once the server may have accepted a try. */
  sent?: boolean;
}

type Value = string | number | boolean | Date | undefined | null;

/** Opened is an answer whose body is still unread. */
export interface Opened {
  answer: Answer;
  /** The body as it arrives. The server must not pause for too long while the client waits. */
  chunks(): AsyncGenerator<Uint8Array>;
  /** close drops the unread rest. */
  close(): void;
}

const maxAnswer = 64 << 20;
const slowest = 16; // bytes a millisecond, for an upload without progress reports

/**
 * Connection sends requests to a server with the caller's key. It repeats them where that is safe and may help, within the given time.
 * @internal
 */
export class Connection {
  readonly #closing = new AbortController();
  readonly #calls = new Set<Call>(); // in progress
  readonly #leaving = new Set<Promise<void>>(); // remaining work for abandoned calls
  #transport: Promise<Transport> | undefined;
  #met = false;
  /** exited returns the reason why a local server no longer answers; undefined if it may. */
  exited: (() => BelljarError | undefined) | undefined;

  constructor(readonly options: ConnectionOptions) {}

  /** call starts a call of a method. */
  call(options: CallOptions = {}): Call {
    const call = new Call(options, () => this.#calls.delete(call));
    this.#calls.add(call);
    if (this.#closing.signal.aborted) call.stop(closing);
    return call;
  }

  /** json requests JSON. */
  async json<T>(ask: Ask, options: CallOptions = {}): Promise<T> {
    const call = this.call(options);
    try {
      return (await this.repeat(call, ask, (answer, watch) => this.#decode(answer, watch))) as T;
    } finally {
      call.end();
    }
  }

  /** open requests an answer that is read as it arrives. The call ends with the reading. */
  async open(ask: Ask, options: CallOptions = {}): Promise<Opened> {
    const call = this.call(options);
    try {
      return await this.repeat(call, ask, async (answer, watch) => this.opened(answer, watch, call));
    } catch (error) {
      call.end();
      throw error;
    }
  }

  /** ticketUrl returns an address with a ticket for its path and query, which works once, within a minute. */
  async ticketUrl(path: string, query: Record<string, string | number | undefined> = {}, options?: CallOptions): Promise<string> {
    const target = this.url(path, query).slice(this.options.baseUrl.length); // the server does not know the path prefix
    const { token } = await this.json<{ token: string }>(
      { method: "POST", path: route("tickets"), json: { path: target } },
      options,
    );
    return this.url(path, { ...query, token });
  }

  /** opened wraps an answer to read as it arrives. The end of the reading also ends call, if given. */
  opened(answer: Answer, watch: Watch, call?: Call): Opened {
    const end = (cut: boolean): void => {
      watch.end(cut);
      call?.end();
    };
    return {
      answer,
      chunks: () => this.#chunks(answer, watch, end),
      close: () => {
        answer.discard();
        end(true);
      },
    };
  }

  async *#chunks(answer: Answer, watch: Watch, end: (cut: boolean) => void): AsyncGenerator<Uint8Array> {
    let whole = false;
    try {
      watch.owe();
      for await (const chunk of answer.chunks()) {
        watch.mine();
        yield chunk;
        if (watch.call.signal.aborted) throw watch.call.signal.reason;
        watch.owe();
      }
      whole = true;
    } catch (error) {
      throw this.broken(watch, "the server's answer broke off", error);
    } finally {
      end(!whole);
    }
  }

  async #decode(answer: Answer, watch: Watch): Promise<unknown> {
    const pieces: Uint8Array[] = [];
    let size = 0;
    for await (const piece of this.#chunks(answer, watch, (cut) => watch.end(cut))) {
      pieces.push(piece);
      if ((size += piece.length) > maxAnswer) throw foreign(`the server answered with more than ${maxAnswer} bytes`);
    }
    if (answer.status === 204) return undefined;
    if (kindOf(answer) !== "application/json") throw strangerOf(answer);
    try {
      const read: unknown = JSON.parse(new TextDecoder().decode(join(pieces, size)));
      if (typeof read === "object" && read !== null) return read;
    } catch (error) {
      throw strangerOf(answer, error);
    }
    throw strangerOf(answer);
  }

  /** repeat sends a request, repeats it if necessary, and passes a successful answer to take. It also repeats if take throws a passing error. */
  async repeat<T>(call: Call, ask: Ask, take: (answer: Answer, watch: Watch) => Promise<T>): Promise<T> {
    for (const tries = this.tries(); ; ) {
      try {
        return await this.once(call, ask, take);
      } catch (error) {
        await this.wait(call, error, tries, ask);
      }
    }
  }

  /** tries returns the retry budget of a new operation. */
  tries(): Tries {
    return new Tries(this.options.maxRetries, this.options.patienceMs);
  }

  /** wait waits before the next try, or throws the caller's error. */
  async wait(call: Call, error: unknown, tries: Tries, ask?: Ask): Promise<void> {
    const over = call.over();
    if (over) throw over;
    if (!(error instanceof Passing)) throw error;
    const spent = ask?.body instanceof ReadableStream || (ask?.once && !error.undone);
    const pause = spent ? undefined : tries.again(error);
    if (pause === undefined) throw unwrapped(error);
    await sleep(pause, call.signal).catch(() => {
      throw call.over();
    });
  }

  /** once sends a request without retries. Its error may be a Passing. */
  async once<T>(call: Call, ask: Ask, take: (answer: Answer, watch: Watch) => Promise<T>): Promise<T> {
    const watch = new Watch(call, this.options.silenceMs + (ask.longerMs ?? 0));
    const sent = ask.sent ?? false;
    let taken = false;
    try {
      const answer = await this.#send(ask, watch);
      if (answer.status >= 200 && answer.status < 300) {
        taken = true;
        return await take(answer, watch);
      }
      throw await this.failure(answer, watch);
    } catch (error) {
      if (error instanceof Passing && error.refused) ask.sent = sent;
      throw error;
    } finally {
      if (!taken) watch.end(false);
    }
  }

  async #send(ask: Ask, watch: Watch): Promise<Answer> {
    const over = watch.call.over();
    if (over) throw over;
    const transport = await this.transport();
    const { method } = ask;
    const url = this.url(ask.path, ask.query);
    const headers: Record<string, string> = { Accept: "application/json", ...this.options.headers, ...ask.headers };
    for (const [name, value] of Object.entries(headers)) {
      // A transport would report this as a failure of the network.
      if (/[^\t\x20-\x7e\x80-\xff]/.test(value)) throw invalid(name, `${name} has characters that cannot be sent`);
    }
    let body = ask.body;
    let fault: { error: unknown } | undefined; // an error of the caller's stream
    let sending = true;
    const turn = (ours: boolean, left = 0): void => void (sending && (ours ? watch.mine() : watch.owe(left / slowest)));
    if (body instanceof ReadableStream) body = watched(body, turn, (error) => (fault = { error }));
    if (ask.json !== undefined) {
      headers["Content-Type"] = "application/json";
      body = JSON.stringify(ask.json);
    }
    watch.owe(sizeOf(body) / slowest);
    ask.sent = true;
    try {
      const answer = await transport.send({ method, url, headers, body, signal: watch.signal, onSent: (left) => turn(false, left) });
      this.#met = true;
      return answer;
    } catch (error) {
      if (fault && !watch.call.over()) throw fault.error;
      throw this.unreachable(watch, error);
    } finally {
      sending = false;
      watch.mine();
    }
  }

  /** failure returns the error of an answer. */
  async failure(answer: Answer, watch: Watch): Promise<unknown> {
    let text = "";
    const decoder = new TextDecoder();
    try {
      watch.owe();
      for await (const piece of answer.chunks()) {
        text += decoder.decode(piece, { stream: true });
        if (text.length > 1 << 20) break; // enough, or useless
      }
    } catch {
      // the part that has arrived is enough, or useless
    } finally {
      watch.mine();
    }
    return watch.call.over() ?? failureOf(answer, text);
  }

  /** unreachable returns the error of a request without an answer. */
  unreachable(watch: Watch, error: unknown): unknown {
    const cause = systemOf(error);
    const stays = cause && !watch.call.over() && this.#unusable(cause, error);
    if (stays) return stays;
    const refused = !watch.silent && isRefused(cause);
    const undone = cause !== undefined && (refused || (!watch.silent && ["connect", "getaddrinfo"].includes(cause.syscall ?? "")));
    const failure = this.broken(watch, `server ${this.options.name} cannot be reached`, error, undone);
    if (refused && !this.#met) return unwrapped(failure); // a wrong address is more likely than a brief outage
    if (failure instanceof Passing && !undone && !watch.silent) this.#met = true; // it has accepted the connection
    return failure;
  }

  // unusable returns the error for a server whose TLS will not work on a retry either.
  #unusable({ code, message }: SystemError, cause: unknown): RuntimeUnavailableError | undefined {
    const { name } = this.options;
    let body = {
      message: `server ${name} cannot be reached: ${message} (${code})`,
      hint: "if the certificate is right, make its issuer known: $NODE_EXTRA_CA_CERTS names a file of those to trust",
    };
    if (message.includes("wrong version number")) body = { message: `server ${name} speaks HTTP, without TLS`, hint: `use http://${name}` };
    else if (!/CERT|SIGNATURE|TLS_/.test(code)) return undefined;
    return new RuntimeUnavailableError({ code: "runtime_unavailable", ...body }, { cause });
  }

  /**
   * broken returns the error of a failure without an answer: passing, unless the call has ended. undone means that
   * the server has seen nothing of the request.
   */
  broken(watch: Watch, message: string, error: unknown, undone = false): unknown {
    const over = watch.call.over() ?? this.exited?.();
    if (over) return over;
    const cause = watch.silent ? new Error(`the server sent nothing for ${watch.silenceMs / 1000} s`) : error;
    return new Passing(
      new RuntimeUnavailableError(
        { code: "runtime_unavailable", message: `${message}: ${reasonOf(cause)}`, hint: "check the address, and that belljar serve is running there" },
        { cause },
      ),
      0, 0, undone,
    );
  }

  /** met records that the server is at its address: refused connections are an outage from then on. */
  met(): void {
    this.#met = true;
  }

  /** transport returns the transport for requests, and creates it on first use. */
  transport(): Promise<Transport> {
    if (this.#closing.signal.aborted) {
      return Promise.reject(new CanceledError({ code: "canceled", message: "the client is closed" }));
    }
    return (this.#transport ??= this.options.transport());
  }

  /** url returns the whole address of a path. */
  url(path: string, query?: Ask["query"]): string {
    const text = query instanceof URLSearchParams ? query.toString() : queryOf(query).toString();
    return this.options.baseUrl + path + (text ? "?" + text : "");
  }

  /** closed is a signal that is aborted when the client closes. */
  get closed(): AbortSignal {
    return this.#closing.signal;
  }

  /** leave tracks remaining work for an abandoned call. Its failure has no caller to report it to. */
  leave(work: Promise<void>): void {
    const done = work.catch(() => {}).finally(() => this.#leaving.delete(done));
    this.#leaving.add(done);
  }

  /** close finishes the work for abandoned calls, and then ends all calls and connections. */
  async close(): Promise<void> {
    // A call that was aborted just now tells a turn later what work it leaves.
    if ([...this.#calls].some((call) => call.signal.aborted)) await new Promise((resolve) => setTimeout(resolve));
    if (this.#leaving.size > 0) await Promise.all(this.#leaving);
    this.#closing.abort(closing);
    for (const call of this.#calls) call.stop(closing);
    const transport = await this.#transport?.catch(() => undefined); // a transport that could not be created needs no closing
    transport?.close();
  }
}

function sizeOf(body: RequestBody | undefined): number {
  return body instanceof Blob ? body.size : body instanceof ReadableStream ? 0 : (body?.length ?? 0);
}

// watched wraps a stream: it calls turn when the turn changes, and failed for an error of the stream, which a transport would
// report as one of the network.
function watched(stream: ReadableStream<Uint8Array>, turn: (ours: boolean) => void, failed: (error: unknown) => void): ReadableStream<Uint8Array> {
  const reader = stream.getReader();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        turn(true);
        const { done, value } = await reader.read();
        turn(false);
        if (done) return controller.close();
        if (!(value instanceof Uint8Array)) throw invalid("content", "a piece of the content is neither text nor bytes");
        controller.enqueue(value);
      } catch (error) {
        failed(error);
        throw error;
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

/**
 * queryOf returns a query for the API, without undefined values.
 * @internal
 */
export function queryOf(values: Record<string, Value> = {}): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== null) query.set(name, value instanceof Date ? value.toISOString() : wellFormed(name, String(value)));
  }
  return query;
}

/**
 * route joins the parts of a path below the API, each escaped.
 * @internal
 */
export function route(...parts: string[]): string {
  for (const part of parts) {
    // The address would be parsed into other parts.
    if (typeof part !== "string" || part === "" || part === "." || part === "..") throw invalid("id", `"${part}" is no id`);
  }
  try {
    return ["/api/v1/sandbox", ...parts.map(encodeURIComponent)].join("/");
  } catch {
    throw invalid("id", "an id has half a surrogate pair in it");
  }
}

/**
 * kindOf returns an answer's media type, without parameters.
 * @internal
 */
export function kindOf(answer: Answer): string {
  return (answer.header("Content-Type") ?? "").split(";")[0]!.trim().toLowerCase();
}

/**
 * join concatenates pieces into one array, which shares its memory with nothing: node reuses that of its buffers.
 * @internal
 */
export function join(pieces: Uint8Array[], size = pieces.reduce((sum, piece) => sum + piece.length, 0)): Uint8Array {
  const whole = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

type SystemError = Error & { code: string; syscall?: string };

// systemOf returns the innermost system error of a failure on node, if there is one.
function systemOf(error: unknown): SystemError | undefined {
  for (let e = error, depth = 0; e instanceof Error && depth < 4; e = e.cause, depth++) {
    if (typeof (e as Partial<SystemError>).code === "string") return e as SystemError;
  }
  return undefined;
}

function reasonOf(error: unknown): string {
  const cause = systemOf(error) ?? error;
  return cause instanceof Error ? cause.message || (cause as SystemError).code : String(cause);
}

// isRefused reports whether a request apparently failed because nothing listens at the address.
function isRefused(cause: SystemError | undefined): boolean {
  if (cause) return ["ECONNREFUSED", "ENOENT", "ENOTFOUND", "EACCES"].includes(cause.code);
  return typeof document !== "undefined"; // a browser gives no reason
}
