/** frame encodes a WebSocket server's frame: its first byte, its payload, and its length, which may be wrong on purpose. */
export function frame(first: number, payload: Uint8Array | string, length?: number): Buffer {
  const body = Buffer.from(payload as string);
  const n = length ?? body.length;
  const head = n < 126 ? Buffer.from([first, n]) : n < 65536 ? Buffer.from([first, 126, n >> 8, n & 255]) : Buffer.alloc(10);
  if (n >= 65536) {
    head[0] = first;
    head[1] = 127;
    head.writeBigUInt64BE(BigInt(n), 2);
  }
  return Buffer.concat([head, body]);
}
