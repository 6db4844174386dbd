// The small parts: events, incomplete characters, a stream's output, Retry-After.
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventsOf, type ServerEvent } from "../src/events.js";
import { Decoder, Texts } from "../src/frame.js";
import { retryAfter } from "../src/failure.js";
import { Excerpt, Output, RunResult } from "../src/result.js";
import type { Run } from "../src/types.js";
import { base64, newKey, textOf, unbase64 } from "../src/bytes.js";
import { join } from "../src/connection.js";

async function* pieces(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function events(text: string, size = 1 << 20): Promise<ServerEvent[]> {
  const got: ServerEvent[] = [];
  for await (const event of eventsOf(pieces(Buffer.from(text), size))) got.push(event);
  return got;
}

test("server-sent events are read however they are cut", async () => {
  const text =
    "retry: 1000\n\n: a remark\n\nid: 1\nevent: stdout\ndata: {\"a\":\"ü🙂\"}\n\nid:2\r\nevent:two\r\ndata:first\r\ndata: second\r\n\r\n" +
    "unknown: field\ndata\n\nid: 9\ndata: cut off";
  for (const size of [1, 2, 3, 5, 11, 1000]) {
    assert.deepEqual(await events(text, size), [
      { id: "1", name: "stdout", data: '{"a":"ü🙂"}' },
      { id: "2", name: "two", data: "first\nsecond" },
      { id: "", name: "", data: "" },
    ], `pieces of ${size}`);
  }
});

test("an event without an end is not gathered for ever", async () => {
  async function* endless(): AsyncGenerator<Uint8Array> {
    for (;;) yield Buffer.alloc(1 << 20, "x");
  }
  await assert.rejects(async () => {
    for await (const _ of eventsOf(endless()));
  }, /without an end/);
});

test("characters that frames share are whole", () => {
  const whole = "a€b🙂c é𝄞\u{10FFFF}";
  const bytes = Buffer.from(whole);
  for (let size = 1; size < 7; size++) {
    const texts = new Texts();
    let text = "";
    let back: Buffer = Buffer.alloc(0);
    for (let at = 0, seq = 1; at < bytes.length; at += size, seq++) {
      const piece = bytes.subarray(at, at + size);
      const plain = Buffer.from(piece.toString()).equals(piece); // the rule that the server uses
      const frame = texts.frame({ type: "stdout", seq, encoding: plain ? "utf8" : "base64", data: plain ? piece.toString() : piece.toString("base64") });
      assert.ok(frame.type === "stdout");
      text += frame.text;
      back = Buffer.concat([back, frame.data]);
    }
    assert.equal(text, whole, `pieces of ${size}`);
    assert.deepEqual(back, bytes);
  }
});

test("a decoder knows when it holds a beginning", () => {
  for (const [bytes, pending] of [
    [[0x61], false], [[0xc3], true], [[0xc3, 0xa9], false], [[0xe2, 0x82], true], [[0xe2, 0x82, 0xac], false],
    [[0xf0, 0x9f], true], [[0xf0, 0x9f, 0x99], true], [[0xf0, 0x9f, 0x99, 0x82], false], [[0xff], true], [[0x61, 0x80], false],
  ] as [number[], boolean][]) {
    const decoder = new Decoder();
    decoder.decode(Uint8Array.from(bytes));
    assert.equal(decoder.pending, pending, String(bytes));
  }
});

test("a result that is cut within a character is whole", () => {
  const line = Buffer.from('{"type":"value","data":{"text/plain":"\u20ac"}}\n');
  const cut = line.indexOf("\u20ac") + 1;
  const texts = new Texts();
  const pieces = [line.subarray(0, cut), line.subarray(cut)].map((piece, i) => texts.frame({ type: "result", seq: i + 1, encoding: "base64", data: base64(piece) }));
  assert.equal(pieces.map((piece) => (piece.type === "result" ? piece.text : "")).join(""), line.toString());
});

test("what is no frame of output is refused", () => {
  const texts = new Texts();
  assert.throws(() => texts.frame({ type: "stdout", seq: 1, encoding: "utf16", data: "x" }), /cannot be read/);
  assert.throws(() => texts.frame({ type: "stdout", seq: 1, encoding: "utf8", data: 5 }), /cannot be read/);
});

test("an excerpt is all of what is short, and both ends of what is long", () => {
  const short = new Excerpt();
  for (let i = 0; i < 1000; i++) short.add(Buffer.from(`line ${i}\n`));
  assert.equal(short.truncated, false);
  assert.equal(Buffer.from(short.bytes()).toString(), Array.from({ length: 1000 }, (_, i) => `line ${i}\n`).join(""));

  const all = Buffer.from(Array.from({ length: 3_000_000 }, (_, i) => (i * 7 + (i >> 8)) & 127));
  for (const size of [97, 1000, 4096, 700_000, 5_000_000]) {
    const long = new Excerpt();
    for (let at = 0; at < all.length; at += size) long.add(all.subarray(at, at + size));
    assert.equal(long.truncated, true);
    const want = Buffer.concat([all.subarray(0, 512 << 10), all.subarray(all.length - (512 << 10))]);
    assert.ok(want.equals(long.bytes()), `pieces of ${size}`);
  }
  for (const [text, kept] of [["€", 349_524], ["é", 524_288], ["😀", 524_288], ["aa€", 629_145]] as const) {
    const cut = new Excerpt();
    cut.add(Buffer.from(text.repeat(600_000)));
    const shown = Buffer.from(cut.bytes()).toString();
    assert.ok(!shown.includes("\ufffd"), text);
    assert.equal(shown.length, kept, text);
  }
  const half = Buffer.alloc(512 << 10, "x");
  for (let byte = 0x80; byte < 0x100; byte++) { // the last one before the gap
    half[half.length - 1] = byte;
    const cut = new Excerpt();
    cut.add(half);
    cut.add(Buffer.alloc(1 << 20, "y"));
    assert.equal(cut.bytes().length, (1 << 20) - (byte >= 0xc2 && byte <= 0xf4 ? 1 : 0), byte.toString(16));
  }
  const exact = new Excerpt();
  exact.add(Buffer.alloc(1 << 20, "x"));
  assert.equal(exact.truncated, false);
  assert.equal(exact.bytes().length, 1 << 20);
});

test("Retry-After is a number or a date", () => {
  const now = Date.parse("2026-11-21T00:00:00Z");
  for (const [given, want] of [
    [null, undefined], ["", undefined], ["soon", undefined], ["-1", undefined], ["1e9", undefined], ["0", 0], ["2", 2000], [" 1.5 ", 1500],
    ["99999999", 86_400_000], ["Sat, 21 Nov 2026 00:00:30 GMT", 30_000], ["Fri, 20 Nov 2026 00:00:00 GMT", 0],
  ] as [string | null, number | undefined][]) {
    assert.equal(retryAfter(given, now), want, String(given));
  }
});

test("base64 holds every byte", () => {
  const all = Uint8Array.from({ length: 256 }, (_, i) => i);
  assert.deepEqual(unbase64(base64(all)), all);
  assert.equal(base64(all), Buffer.from(all).toString("base64"));
  const own = unbase64("AAEC"); // a small buffer of node is a part of a large one
  assert.deepEqual([own.constructor, own.buffer.byteLength], [Uint8Array, 3]);
});

test("what is put together has memory of its own", () => {
  const pooled = Buffer.from("abc");
  const joined = join([pooled]);
  pooled.fill("x");
  assert.deepEqual([joined.constructor, joined.buffer.byteLength, textOf(joined)], [Uint8Array, 3, "abc"]);
});

test("keys differ, also where there is no crypto, or less of it", (t) => {
  const own = Object.getOwnPropertyDescriptor(globalThis, "crypto");
  t.after(() => (own ? Object.defineProperty(globalThis, "crypto", own) : Reflect.deleteProperty(globalThis, "crypto")));
  const some = { getRandomValues: <T extends Uint8Array>(to: T): T => to.fill(7) };
  for (const value of [own?.value ?? globalThis.crypto, undefined, some]) {
    Object.defineProperty(globalThis, "crypto", { value, configurable: true, writable: true });
    const keys = [newKey(), newKey()];
    for (const key of keys) assert.match(key, /^[0-9a-f-]{32,36}$/);
    if (value !== some) assert.notEqual(keys[0], keys[1]);
  }
});

test("a result says what enforces its limits, and what it warns of", () => {
  const none = new Output("", false);
  const result = (more: object) => new RunResult({ id: "1", phase: "completed", exit_code: 0, ...more } as Run, none, none);
  const weak = result({ warnings: ["limits not enforced"], limits_enforced: { memory: "RLIMIT_DATA of each process" } });
  assert.deepEqual([weak.warnings, weak.limitsEnforced], [["limits not enforced"], { memory: "RLIMIT_DATA of each process" }]);
  assert.deepEqual([result({}).warnings, result({}).limitsEnforced], [[], {}]);
});
