import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeFrame, FrameReader, maxMessage, opcode, ProtocolError, type WsFrame } from "../src/node/wsframe.js";
import { frame } from "./wire.js";

function readAll(...pieces: Uint8Array[]): WsFrame[] {
  const reader = new FrameReader();
  return pieces.flatMap((piece) => [...reader.read(piece)]);
}

function text(f: WsFrame | undefined): string {
  return Buffer.from(f!.payload).toString();
}

test("messages of all lengths are masked, each with a mask of its own", () => {
  for (const n of [0, 1, 3, 4, 5, 125, 126, 127, 65535, 65536, 100_000]) {
    const payload = Buffer.from(Array.from({ length: n }, (_, i) => i & 255));
    const coded = Buffer.from(encodeFrame(opcode.binary, payload));
    assert.equal(coded[0], 0x82);
    assert.equal(coded[1]! & 0x80, 0x80);
    const start = n < 126 ? 2 : n < 65536 ? 4 : 10;
    if (start === 2) assert.equal(coded[1]! & 127, n);
    if (start === 4) assert.equal(coded.readUInt16BE(2), n);
    if (start === 10) assert.equal(coded.readBigUInt64BE(2), BigInt(n));
    const mask = coded.subarray(start, start + 4);
    const plain = coded.subarray(start + 4).map((byte, i) => byte ^ mask[i & 3]!);
    assert.deepEqual(Buffer.from(plain), payload);
  }
  const masks = new Set(Array.from({ length: 50 }, () => Buffer.from(encodeFrame(1, new Uint8Array(0))).subarray(2, 6).toString("hex")));
  assert.ok(masks.size > 40);
});

test("frames are read however they are cut", () => {
  const all = Buffer.concat([
    frame(0x81, "one"), frame(0x01, "tw"), frame(0x89, "ping"), frame(0x00, "o an"), frame(0x80, "d more"),
    frame(0x82, Buffer.alloc(300, 7)), frame(0x82, Buffer.alloc(70_000, 8)), frame(0x81, ""), frame(0x88, Buffer.from([3, 232])),
  ]);
  for (const size of [1, 2, 3, 7, 64, 1000, all.length]) {
    const pieces: Buffer[] = [];
    for (let at = 0; at < all.length; at += size) pieces.push(all.subarray(at, at + size));
    const got = readAll(...pieces);
    assert.deepEqual(got.map((f) => [f.opcode, f.payload.length]), [[1, 3], [9, 4], [1, 12], [2, 300], [2, 70_000], [1, 0], [8, 2]], `pieces of ${size}`);
    assert.equal(text(got[0]), "one");
    assert.equal(text(got[2]), "two and more");
    assert.ok(got[4]!.payload.every((b) => b === 8));
  }
});

test("what a server may not do ends the connection, with the code for it", () => {
  const cases: [string, number, Buffer][] = [
    ["masked", 1002, Buffer.concat([Buffer.from([0x81, 0x81, 1, 2, 3, 4]), Buffer.from([5])])],
    ["a reserved bit", 1002, frame(0xc1, "x")],
    ["an unknown opcode", 1002, frame(0x83, "x")],
    ["an unknown control opcode", 1002, frame(0x8b, "x")],
    ["a fragmented ping", 1002, frame(0x09, "x")],
    ["a long ping", 1002, frame(0x89, Buffer.alloc(126))],
    ["a continuation of nothing", 1002, frame(0x80, "x")],
    ["a message within a message", 1002, Buffer.concat([frame(0x01, "x"), frame(0x81, "y")])],
    ["a message that is too long", 1009, frame(0x82, "", maxMessage + 1)],
    ["a length that no number holds", 1009, Buffer.from([0x82, 127, 255, 255, 255, 255, 255, 255, 255, 255])],
  ];
  for (const [what, code, bytes] of cases) {
    assert.throws(() => readAll(bytes), (e: unknown) => e instanceof ProtocolError && e.code === code, what);
  }
  const half = frame(0x02, Buffer.alloc(maxMessage / 2));
  assert.throws(
    () => readAll(half, frame(0x00, Buffer.alloc(maxMessage / 2)), frame(0x80, "x")),
    (e: unknown) => e instanceof ProtocolError && e.code === 1009,
    "fragments that are too long together",
  );
});

test("a long message in many pieces is put together in time that grows with it", () => {
  const big = frame(0x82, Buffer.alloc(maxMessage));
  const reader = new FrameReader();
  let got = 0;
  for (let at = 0; at < big.length; at += 1024) for (const f of reader.read(big.subarray(at, at + 1024))) got += f.payload.length;
  assert.equal(got, maxMessage); // takes minutes if each piece is copied together with all earlier ones
});

test("random bytes never hang or crash the reader", () => {
  let seed = 42;
  const random = (): number => (seed = (seed * 1103515245 + 12345) & 0x7fffffff);
  for (let round = 0; round < 3000; round++) {
    const bytes = Buffer.from(Array.from({ length: random() % 40 }, () => random() >> 8 & 255));
    try {
      readAll(bytes.subarray(0, 5), bytes.subarray(5));
    } catch (error) {
      assert.ok(error instanceof ProtocolError, String(error));
    }
  }
});
