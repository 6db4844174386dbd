import { bytesOf, unbase64, utf8 } from "./bytes.js";
import { foreign, type CallOptions } from "./call.js";
import { route, type Connection } from "./connection.js";
import { CanceledError, ConflictError, errorOf, invalid, NotFoundError, RuntimeUnavailableError, UnauthorizedError, type ErrorBody } from "./error.js";
import { Passing } from "./backoff.js";
import { Decoder } from "./frame.js";
import type { Doorway, Received, Socket } from "./socket.js";
import type { TerminalState } from "./types.js";

/** An event of a terminal. */
export type TerminalEvent =
  /** Earlier output of the terminal (at most once, first), or new output. */
  | { kind: "history" | "output"; data: Uint8Array; text: string }
  /** The program has ended; exitCode is 128+n if a signal ended it. */
  | { kind: "exit"; exitCode: number }
  /** Another client has taken the terminal over. */
  | { kind: "replaced" }
  /** This reader was too slow: attach again for the history. */
  | { kind: "overflow" }
  /** The session, the terminal or its time has ended, or the server is stopping (`shutdown`: attach again). */
  | { kind: "closed"; reason: string };

interface Message {
  type: string;
  data?: string;
  encoding?: string;
  exit_code?: number;
  session_id?: string;
  terminal?: TerminalState;
  resumed?: boolean;
  code?: string;
  message?: string;
  details?: Record<string, unknown>;
  hint?: string;
}

const pieceBytes = 32 << 10;
const pingMs = 15_000; // silence of twice this time means a lost connection

/**
 * Terminal is an attachment to a terminal: loop over it for its events. The loop ends after the program's end (exit) and after the last
 * event (replaced, overflow, closed). It throws when the connection breaks; {@link Terminal.reattach} then returns to the terminal.
 */
export class Terminal implements AsyncIterable<TerminalEvent> {
  readonly #doorway: Doorway;
  readonly #socket: Socket;
  readonly #decoder = new Decoder();
  #state: TerminalState;
  #token: string;
  #left = false;
  #exit: number | undefined;
  #ended = false;
  readonly #signal: AbortSignal | undefined;
  readonly #stop: () => void;

  private constructor(doorway: Doorway, socket: Socket, greeting: Message, signal: AbortSignal | undefined) {
    this.#doorway = doorway;
    this.#socket = socket;
    this.#state = greeting.terminal!;
    this.#token = greeting.session_id ?? "";
    this.#signal = signal;
    this.#stop = () => this.#socket.cut();
    for (const end of [signal, doorway.connection.closed]) end?.addEventListener("abort", this.#stop, { once: true });
    if (signal?.aborted) this.#stop();
  }

  /** @internal */
  static async attach(doorway: Doorway, path: string, query: URLSearchParams, options: CallOptions): Promise<Terminal> {
    const { connection } = doorway;
    const call = connection.call(options);
    const tries = connection.tries();
    // A request that creates a terminal must not be repeated.
    const once = path !== route("terminals");
    try {
      for (;;) {
        let socket: Socket | undefined;
        try {
          socket = await doorway.open(call, path, query);
          const stop = (): void => socket?.cut();
          call.signal.addEventListener("abort", stop, { once: true });
          const greeting = await greet(socket, connection).finally(() => call.signal.removeEventListener("abort", stop));
          return new Terminal(doorway, socket, greeting, options.signal);
        } catch (error) {
          socket?.cut();
          const lost = once && error instanceof Passing && !error.undone;
          await connection.wait(call, lost ? error.error : error, tries);
        }
      }
    } finally {
      call.end();
    }
  }

  /** The server's last answer about the terminal. */
  get state(): TerminalState {
    return this.#state;
  }
  /** The terminal's id. */
  get id(): string {
    return this.#state.terminal_id;
  }
  /**
   * A token with which a browser of the same user can reattach to this terminal, for half an hour. The browser needs
   * credentials besides, such as a ticket.
   */
  get token(): string {
    return this.#token;
  }
  /** The program's exit status once it has ended; undefined before. */
  get exitCode(): number | undefined {
    return this.#exit;
  }

  /** write sends input. It waits while the program does not read. */
  async write(data: string | Uint8Array): Promise<void> {
    const bytes = bytesOf(data);
    for (let at = 0; at < bytes.length; at += pieceBytes) await this.#send(bytes.subarray(at, at + pieceBytes));
  }

  /** resize changes the size for all clients: 1 to 1000 on each side. */
  async resize(cols: number, rows: number): Promise<void> {
    for (const [field, size] of Object.entries({ cols, rows })) {
      if (!Number.isInteger(size) || size < 1 || size > 1000) throw invalid(field, `${field} must be an integer from 1 to 1000`);
    }
    await this.#send(JSON.stringify({ type: "resize", cols, rows }));
    this.#state = { ...this.#state, cols, rows };
  }

  /** reattach reconnects to this terminal. Its first event is the history. */
  async reattach(options: CallOptions = {}): Promise<Terminal> {
    await this.close();
    return Terminal.attach(this.#doorway, route("terminals"), new URLSearchParams({ terminal_id: this.id }), options);
  }

  /** close detaches from the terminal, whose program continues for a while. A second call is not an error. */
  async close(): Promise<void> {
    this.#left = true;
    this.#deaf();
    await this.#socket.close();
  }

  /** next waits for the next event; undefined at the end. */
  async next(): Promise<TerminalEvent | undefined> {
    while (!this.#ended) {
      const got = await this.#receive();
      if (got.kind === "closed") return this.#conclude(got.code, got.reason);
      const event = got.kind === "text" ? this.#event(messageOf(got.data)) : undefined;
      if (event) return event;
    }
    return undefined;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TerminalEvent, void, undefined> {
    for (let event = await this.next(); event; event = await this.next()) yield event;
  }

  #sent = 0; // bytes
  #read = 0; // bytes that the server has certainly read
  #asked: number | undefined; // #sent at the last ping, until that is answered

  // receive waits for a message. It pings a silent server, which answers in order, and waits while the program does not read its input: then
  // silence means nothing.
  async #receive(): Promise<Received> {
    const timer = setInterval(() => {
      if (this.#asked !== undefined) return void (this.#sent === this.#read && this.#socket.cut());
      this.#asked = this.#sent;
      this.#socket.send('{"type":"ping"}').catch(() => {}); // the connection's end reports the error
    }, Math.min(pingMs, this.#doorway.connection.options.silenceMs));
    try {
      return await this.#socket.receive();
    } finally {
      clearInterval(timer);
    }
  }

  #last: Message | undefined;

  #event(message: Message): TerminalEvent | undefined {
    this.#last = message;
    switch (message.type) {
      case "history":
      case "output": {
        const text = message.data ?? "";
        if (message.encoding !== "base64" && !this.#decoder.pending) {
          return { kind: message.type, text, get data() { return utf8(text); } };
        }
        const data = message.encoding === "base64" ? unbase64(text) : utf8(text);
        return { kind: message.type, data, text: this.#decoder.decode(data) };
      }
      case "exit":
        this.#exit = message.exit_code ?? 0;
        this.#state = { ...this.#state, exit_code: this.#exit };
        this.#ended = true;
        void this.close();
        return { kind: "exit", exitCode: this.#exit };
      case "session":
        this.#state = message.terminal ?? this.#state;
        this.#token = message.session_id ?? this.#token;
        break;
      case "pong":
        this.#read = this.#asked ?? this.#read;
        this.#asked = undefined;
    }
    return undefined; // these messages, and unknown ones of newer servers
  }

  // conclude returns or throws the end of a connection without an exit event.
  #conclude(code: number, reason: string): TerminalEvent | undefined {
    this.#ended = true;
    this.#deaf();
    if (this.#left) return undefined;
    if (this.#signal?.aborted) {
      throw new CanceledError({ code: "canceled", message: "the terminal was left" }, { cause: this.#signal.reason });
    }
    switch (code) {
      case 4010:
        return { kind: "replaced" };
      case 4009:
        return { kind: "overflow" };
      case 4004:
        return { kind: "closed", reason: "closed" };
      case 4008:
        return { kind: "closed", reason: String(this.#last?.details?.["reason"] ?? "timeout") };
      case 1001:
        return { kind: "closed", reason: "shutdown" };
    }
    if (this.#doorway.connection.closed.aborted) return { kind: "closed", reason: "client closed" };
    if (this.#last?.type === "error" && code !== 1006) throw errorOf(this.#last as unknown as ErrorBody);
    throw new RuntimeUnavailableError({
      code: "runtime_unavailable",
      message: `the connection to the terminal broke${reason ? ": " + reason : ""}`,
      details: { terminal_id: this.id, close_code: code },
      hint: "attach again: what it printed meanwhile is kept",
    });
  }

  // deaf removes this terminal's signal listeners.
  #deaf(): void {
    for (const end of [this.#signal, this.#doorway.connection.closed]) end?.removeEventListener("abort", this.#stop);
  }

  async #send(data: string | Uint8Array): Promise<void> {
    this.#sent += data.length;
    try {
      await this.#socket.send(data);
    } catch (error) {
      throw new ConflictError({ code: "conflict", message: "the terminal no longer accepts input" }, { cause: error });
    }
  }
}

// greet waits for the server's first message. Its error may be a Passing.
async function greet(socket: Socket, connection: Connection): Promise<Message> {
  const timer = setTimeout(() => socket.cut(), connection.options.silenceMs);
  try {
    const got = await socket.receive();
    if (got.kind === "closed") {
      throw new Passing(
        new RuntimeUnavailableError({ code: "runtime_unavailable", message: `the terminal's connection broke (${got.code} ${got.reason})` }),
      );
    }
    const message = messageOf(got.kind === "text" ? got.data : "");
    switch (message.type) {
      case "session":
        if (message.terminal) return message;
        break;
      case "session_not_found":
        throw new NotFoundError({ code: "not_found", message: "there is no such terminal or session" });
      case "error": {
        const closed = await socket.receive();
        const error = errorOf(message as unknown as ErrorBody);
        if (closed.kind === "closed" && closed.code === 1013) throw new Passing(error, 0, 2);
        throw closed.kind === "closed" && closed.code === 4001 ? new UnauthorizedError(message as unknown as ErrorBody) : error;
      }
    }
    throw foreign("the terminal cannot be read");
  } finally {
    clearTimeout(timer);
  }
}

function messageOf(text: string): Message {
  try {
    const message = JSON.parse(text) as Message;
    if (typeof message?.type === "string") return message;
  } catch (error) {
    throw foreign("the terminal cannot be read", error);
  }
  throw foreign("the terminal cannot be read");
}
