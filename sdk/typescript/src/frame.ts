import { unbase64, utf8 } from "./bytes.js";
import { foreign } from "./call.js";

/** Output of the program. */
export interface OutputFrame {
  /** The frame's number in the run's log, from 1 without a gap. */
  seq: number;
  type: "stdout" | "stderr";
  /** `build` for the output of a compiler before the program runs; undefined for the program's own. */
  readonly step?: string | undefined;
  /** The output as bytes. */
  readonly data: Uint8Array;
  /** The bytes as text, with U+FFFD for invalid UTF-8. A character that two frames share is in the second. */
  readonly text: string;
}

/** An event: `phase`, `start`, `end`, `error`, or another event of a newer server. */
export interface EventFrame {
  seq: number;
  type: "event";
  event: string;
  data: Record<string, unknown>;
}

/** A heartbeat, about every 10 seconds. */
export interface HeartbeatFrame {
  seq: number;
  type: "heartbeat";
  time: Date;
}

/** The log was cut here, at its cap. */
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

/** One entry of a run's log. A newer server may send other types: ignore them. */
export type Frame = OutputFrame | ResultFrame | EventFrame | HeartbeatFrame | TruncatedFrame;

/**
 * RawFrame is a frame in its JSON form.
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
 * isNote reports whether a frame is for one reader only: it borrows a seq and is not in the log.
 * @internal
 */
export function isNote(frame: RawFrame): boolean {
  return frame.type === "event" && (frame.event === "resume" || frame.event === "stdin_closed");
}

/**
 * Texts creates the frames of a log and decodes their text. Each reader needs its own.
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
    return raw as unknown as Frame; // from a newer server
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

/** TextFrame encodes its text to bytes on first use. */
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
 * Decoder is a TextDecoder that knows whether it holds an incomplete character.
 * @internal
 */
export class Decoder {
  #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  /** Whether the last bytes may end within a character. */
  pending = false;

  decode(bytes: Uint8Array): string {
    this.pending = bytes.length === 0 ? this.pending : unfinished(bytes, this.pending);
    return this.#decoder.decode(bytes, { stream: true });
  }
}

// unfinished reports whether bytes may end within a character. It may have false positives, but no false negatives.
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
