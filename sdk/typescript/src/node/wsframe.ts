import { randomFillSync } from "node:crypto";

/** The opcodes of RFC 6455. */
export const opcode = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

/** ProtocolError is a protocol violation by the server, with the code to close with. */
export class ProtocolError extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }
}

/** A complete message, or a control frame. */
export interface WsFrame {
  opcode: number;
  payload: Uint8Array;
}

/** encodeFrame returns a client's whole message as a masked frame. */
export function encodeFrame(kind: number, payload: Uint8Array): Uint8Array {
  const extra = payload.length < 126 ? 0 : payload.length < 65536 ? 2 : 8;
  const frame = Buffer.allocUnsafe(6 + extra + payload.length);
  frame[0] = 0x80 | kind;
  frame[1] = 0x80 | (extra === 0 ? payload.length : extra === 2 ? 126 : 127);
  if (extra === 2) frame.writeUInt16BE(payload.length, 2);
  else if (extra === 8) frame.writeBigUInt64BE(BigInt(payload.length), 2);
  const mask = frame.subarray(2 + extra, 6 + extra);
  randomFillSync(mask);
  for (let i = 0, at = 6 + extra; i < payload.length; i++, at++) frame[at] = payload[i]! ^ mask[i & 3]!;
  return frame;
}

/** The longest accepted message, in bytes: the server's are at most 64 KB of a log, 2 MiB of a terminal. */
export const maxMessage = 8 << 20;

/** FrameReader assembles the server's messages. */
export class FrameReader {
  #pieces: Buffer[] = [];
  #size = 0;
  #need = 2; // bytes of the next frame, as far as known
  #parts: Uint8Array[] = []; // of a fragmented message
  #partsSize = 0;
  #kind = 0; // of the fragmented message; 0 if there is none

  /** read takes received data and yields complete frames. It throws a {@link ProtocolError}. */
  *read(data: Uint8Array): Generator<WsFrame> {
    this.#pieces.push(Buffer.from(data.buffer, data.byteOffset, data.byteLength));
    this.#size += data.length;
    for (let frame = this.#next(); frame; frame = this.#next()) {
      const whole = this.#assemble(frame);
      if (whole) yield whole;
    }
  }

  // next takes one frame from the received data; undefined if it is incomplete.
  #next(): { final: boolean; opcode: number; payload: Uint8Array } | undefined {
    if (this.#size < this.#need) return undefined;
    let head = this.#peek(2);
    const final = (head[0]! & 0x80) !== 0;
    const kind = head[0]! & 15;
    let length = head[1]! & 127;
    if ((head[0]! & 0x70) !== 0) throw new ProtocolError(1002, "the server uses an extension that was not offered");
    if ((head[1]! & 0x80) !== 0) throw new ProtocolError(1002, "the server masks its messages");
    if (kind >= 8 && (!final || length > 125)) throw new ProtocolError(1002, "the server's control frame is too long or in pieces");
    if ((kind > 2 && kind < 8) || kind > 10) throw new ProtocolError(1002, `the server sent a frame of unknown kind ${kind}`);
    const start = length < 126 ? 2 : length === 126 ? 4 : 10;
    if (this.#size < (this.#need = start)) return undefined;
    head = this.#peek(start);
    if (start === 4) length = head.readUInt16BE(2);
    else if (start === 10) {
      const long = head.readBigUInt64BE(2);
      length = long > BigInt(maxMessage) ? maxMessage + 1 : Number(long);
    }
    if (length + this.#partsSize > maxMessage) throw new ProtocolError(1009, `the server's message is longer than ${maxMessage} bytes`);
    if (this.#size < (this.#need = start + length)) return undefined;
    this.#need = 2;
    const all = this.#peek(start + length);
    const rest = all.subarray(start + length);
    this.#pieces = rest.length > 0 ? [rest] : [];
    this.#size = rest.length;
    return { final, opcode: kind, payload: all.subarray(start, start + length) };
  }

  // peek returns the received data, with at least n bytes in one piece.
  #peek(n: number): Buffer {
    const [first] = this.#pieces;
    if (first && first.length >= n && this.#pieces.length === 1) return first;
    const all = Buffer.concat(this.#pieces, this.#size);
    this.#pieces = [all];
    return all;
  }

  #assemble({ final, opcode: kind, payload }: { final: boolean; opcode: number; payload: Uint8Array }): WsFrame | undefined {
    if (kind >= 8) return { opcode: kind, payload };
    if ((kind === opcode.continuation) !== (this.#kind !== 0)) {
      throw new ProtocolError(1002, "the server's fragments are out of order");
    }
    if (final && kind !== opcode.continuation) return { opcode: kind, payload };
    if (kind !== opcode.continuation) this.#kind = kind;
    if (payload.length > 0) this.#parts.push(payload);
    this.#partsSize += payload.length;
    if (!final) return undefined;
    const whole = { opcode: this.#kind, payload: Buffer.concat(this.#parts, this.#partsSize) };
    this.#kind = 0;
    this.#parts = [];
    this.#partsSize = 0;
    return whole;
  }
}
