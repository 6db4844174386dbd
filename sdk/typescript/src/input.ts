import { base64, bytesOf } from "./bytes.js";
import type { CallOptions } from "./call.js";
import { route } from "./connection.js";
import { CanceledError, ConflictError, PayloadTooLargeError, QuotaExceededError, RuntimeUnavailableError, type BelljarError, type ErrorBody } from "./error.js";
import { isEnd } from "./follow.js";
import type { RawFrame } from "./frame.js";
import type { Doorway, Socket } from "./socket.js";
import type { Run } from "./types.js";

const pieceBytes = 32 << 10;
const partingMs = 10_000;

/**
 * Why the input of a run has ended: client, run_ended, one of its limits (stdin_max_bytes, stdin_max_frame_bytes, stdin_bps, stdin_idle_timeout_sec), or
 * connection_lost. The program does not notice connection_lost: open its input again.
 */
export type InputEnd = "client" | "run_ended" | "connection_lost" | (string & {});

/** A connection to the standard input of an interactive run. */
export class RunInput {
  /** Resolves when input has ended, with the reason. */
  readonly closed: Promise<InputEnd>;
  #reason: InputEnd | undefined;
  #details: Partial<ErrorBody> = {}; // the server's data about the reason
  #ended = false; // stdin_close has been sent
  #finish!: (reason: InputEnd) => void;

  readonly #socket: Socket;
  readonly #signal: AbortSignal | undefined;

  private constructor(socket: Socket, doorway: Doorway, signal: AbortSignal | undefined) {
    this.#socket = socket;
    this.#signal = signal;
    this.closed = new Promise((resolve) => {
      this.#finish = (reason) => {
        this.#reason ??= reason;
        resolve(this.#reason);
      };
    });
    const stop = (): void => socket.cut();
    const signals = [signal, doorway.connection.closed];
    for (const end of signals) end?.addEventListener("abort", stop, { once: true });
    void this.#watch(doorway.connection.options.silenceMs).finally(() => {
      for (const end of signals) end?.removeEventListener("abort", stop);
    });
    if (signal?.aborted) stop();
  }

  /** @internal */
  static async open(doorway: Doorway, id: string, options: CallOptions): Promise<RunInput> {
    const { connection } = doorway;
    const call = connection.call(options);
    try {
      const run = await connection.json<Run>({ method: "GET", path: route("runs", id) }, { signal: call.signal });
      if (!run.interactive || isEnd(run.phase)) {
        throw new ConflictError({ code: "conflict", message: `run ${id} takes no input`, details: { run_id: id } });
      }
      for (const tries = connection.tries(); ; ) {
        try {
          const query = new URLSearchParams({ from_seq: "tail" });
          const socket = await doorway.open(call, route("runs", id, "stream"), query);
          return new RunInput(socket, doorway, options.signal);
        } catch (error) {
          await connection.wait(call, error, tries);
        }
      }
    } finally {
      call.end();
    }
  }

  /** write sends text or bytes, in frames of at most 32 KiB. It waits while the program does not read. */
  async write(data: string | Uint8Array): Promise<void> {
    const bytes = bytesOf(data);
    for (let at = 0; at < bytes.length; at += pieceBytes) {
      await this.#send({ type: "stdin", encoding: "base64", data: base64(bytes.subarray(at, at + pieceBytes)) });
    }
  }

  /** end closes the program's input for all clients: the program reads end of file. It waits for that, and throws if the program did not get all input. */
  async end(): Promise<void> {
    const sending = this.#send({ type: "stdin_close" });
    this.#ended = true;
    await sending.catch(() => {}); // the cause is reported below
    const reason = await this.closed;
    if (reason !== "client" && reason !== "run_ended") throw this.#refusal(reason);
  }

  /** close closes this connection, once the program has taken its input or after ten seconds. The program's input stays open. */
  async close(): Promise<void> {
    // When the connection ends, the server drops input that it has not passed on. It reads a message only after it has passed on the previous one.
    void this.#send({ type: "stdin", encoding: "utf8", data: "" }).catch(() => {}); // the input may have ended
    await this.#socket.close(1000, "", partingMs);
    this.#finish("connection_lost");
  }

  async #send(message: object): Promise<void> {
    if (this.#reason !== undefined || this.#ended) throw this.#refusal(this.#reason ?? "client");
    try {
      await this.#socket.send(JSON.stringify(message));
    } catch (error) {
      throw this.#refusal(this.#reason ?? "connection_lost", error);
    }
  }

  #refusal(reason: InputEnd, cause?: unknown): BelljarError {
    if (reason === "connection_lost" && this.#signal?.aborted) {
      return new CanceledError({ code: "canceled", message: "the input was given up", details: { reason } }, { cause: this.#signal.reason });
    }
    return refusal(reason, this.#details, cause);
  }

  // watch reads the server's messages, which come at least every ten seconds. It cuts a connection that is silent for silenceMs.
  async #watch(silenceMs: number): Promise<void> {
    for (;;) {
      const late = setTimeout(() => this.#socket.cut(), silenceMs);
      const got = await this.#socket.receive().finally(() => clearTimeout(late));
      if (got.kind === "closed") return this.#finish(got.code === 1000 ? "run_ended" : "connection_lost");
      if (got.kind !== "text") continue;
      let frame: RawFrame;
      try {
        frame = JSON.parse(got.data) as RawFrame;
      } catch {
        this.#socket.cut(); // not a Belljar server
        return this.#finish("connection_lost");
      }
      if (frame.type !== "event") continue;
      if (frame.event === "stdin_closed") {
        const { reason, message, hint, ...details } = (frame.data ?? {}) as { reason?: unknown; message?: string; hint?: string };
        if (message !== undefined) this.#details = { message, hint: hint ?? "", details };
        this.#finish(String(reason ?? "client"));
      }
      if (frame.event === "end") {
        this.#finish("run_ended");
        return void this.#socket.close();
      }
    }
  }
}

function refusal(reason: InputEnd, reply: Partial<ErrorBody>, cause?: unknown): BelljarError {
  const body = { message: `standard input is closed: ${reason}`, ...reply, details: { reason, ...reply.details } };
  switch (reason) {
    case "stdin_max_frame_bytes":
      return new PayloadTooLargeError({ code: "payload_too_large", ...body });
    case "stdin_max_bytes":
    case "stdin_bps":
    case "stdin_idle_timeout_sec":
      return new QuotaExceededError({ code: "quota_exceeded", ...body });
    case "connection_lost":
      return new RuntimeUnavailableError(
        { code: "runtime_unavailable", message: "the connection for standard input broke", details: { reason } },
        { cause },
      );
  }
  return new ConflictError({ code: "conflict", ...body });
}
