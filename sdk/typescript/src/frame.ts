import { unbase64, utf8 } from "./bytes.js";
import { foreign } from "./call.js";

/** Something that the program printed. */
export interface OutputFrame {
  /** The frame's number in the run's log, from 1 without a gap. */
  seq: number;
  type: "stdout" | "stderr";
  /** `build` for what a compiler prints before the program runs; the program's own has none. */
  readonly step?: string | undefined;
  /** The bytes. */
  readonly data: Uint8Array;
  /** The same as text; a character that two frames share is in the second. What is no UTF-8 is U+FFFD. */
  readonly text: string;
}

/** Something that happened: `phase`, `start`, `end`, `error`, or another event of a newer server. */
export interface EventFrame {
  seq: number;
  type: "event";
  event: string;
  data: Record<string, unknown>;
}

/** A sign of life, about every 10 seconds. */
export interface HeartbeatFrame {
  seq: number;
  type: "heartbeat";
  time: Date;
}

/** The log was cut here: it was at its cap. */
export interface TruncatedFrame {
  seq: number;
  type: "truncated";
  reason: string;
}

/** A result of code in a context, as a line of JSON, or a piece of one: the last piece ends with a newline. */
export interface ResultFrame {
  seq: number;
  type: "result";
  text: string;
}

/** One entry of a run's log. A newer server may send types that are not here: leave them alone. */
export type Frame = OutputFrame | ResultFrame | EventFrame | HeartbeatFrame | TruncatedFrame;

/**
 * RawFrame is a frame as it travels.
 * @internal
 */
export interface RawFrame {
  type: string;
  seq: number;
  encoding?: string;
  step?: string;
  event?: string;
  data?: unknown;
  reason?: string;
  ts?: string;
}

/**
 * isNote tells whether a frame is for one reader only: it borrows a seq and is not in the log.
 * @internal
 */
export function isNote(frame: RawFrame): boolean {
  return frame.type === "event" && (frame.event === "resume" || frame.event === "stdin_closed");
}

/**
 * Texts makes frames of a log, and text of its bytes: one for each reader.
 * @internal
 */
export class Texts {
  readonly #decoders = { stdout: new Decoder(), stderr: new Decoder(), result: new Decoder() };

  frame(raw: RawFrame): Frame {
    switch (raw.type) {
      case "stdout":
      case "stderr":
        return this.output(raw.seq, raw.type, raw.encoding ?? "utf8", raw.data, raw.step);
      case "result": {
        const data = String(raw.data ?? "");
        return { seq: raw.seq, type: "result", text: this.#decoders.result.decode(raw.encoding === "base64" ? unbase64(data) : utf8(data)) };
      }
      case "event":
        return { seq: raw.seq, type: "event", event: raw.event ?? "", data: (raw.data ?? {}) as Record<string, unknown> };
      case "heartbeat":
        return { seq: raw.seq, type: "heartbeat", time: new Date(raw.ts ?? NaN) };
      case "truncated":
        return { seq: raw.seq, type: "truncated", reason: raw.reason ?? "" };
    }
    return raw as unknown as Frame; // of a newer server
  }

  output(seq: number, type: "stdout" | "stderr", encoding: string, data: unknown, step?: string): OutputFrame {
    if (typeof data !== "string" || (encoding !== "utf8" && encoding !== "base64")) {
      throw foreign(`frame ${seq} cannot be read`);
    }
    const decoder = this.#decoders[type];
    if (encoding === "utf8" && !decoder.pending) return new TextFrame(seq, type, data, step);
    const bytes = encoding === "utf8" ? utf8(data) : unbase64(data);
    return { seq, type, data: bytes, text: decoder.decode(bytes), step };
  }
}

/** TextFrame makes bytes of its text on first use. */
class TextFrame implements OutputFrame {
  #bytes: Uint8Array | undefined;

  constructor(
    readonly seq: number,
    readonly type: "stdout" | "stderr",
    readonly text: string,
    readonly step: string | undefined,
  ) {}

  get data(): Uint8Array {
    return (this.#bytes ??= utf8(this.text));
  }
}

/**
 * Decoder is a TextDecoder that knows whether it holds the beginning of a character.
 * @internal
 */
export class Decoder {
  #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  /** Whether the last bytes were the beginning of a character. */
  pending = false;

  decode(bytes: Uint8Array): string {
    this.pending = bytes.length === 0 ? this.pending : unfinished(bytes, this.pending);
    return this.#decoder.decode(bytes, { stream: true });
  }
}

// unfinished tells whether bytes may end within a character. It may say yes too often, never no.
function unfinished(bytes: Uint8Array, before: boolean): boolean {
  const last = bytes[bytes.length - 1]!;
  if (last < 0x80) return false;
  if (last >= 0xc0) return true;
  for (let i = 2; i <= 4; i++) {
    const byte = bytes[bytes.length - i];
    if (byte === undefined) return before;
    if (byte >= 0xc0) return (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) > i;
    if (byte < 0x80) return false;
  }
  return false;
}
