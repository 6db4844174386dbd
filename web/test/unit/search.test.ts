import assert from "node:assert/strict";
import { test } from "node:test";
import { Kind, Lines } from "../../src/log/lines.ts";
import { block, expression, matchesStream, ranges, searchBlock, type Query } from "../../src/log/search.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const query = (text: string, rest: Partial<Query> = {}): Query => ({ text, regexp: false, matchCase: false, ...rest });

function rows(lines: Lines, asked: Query, size?: number): number[] {
  const hits: number[] = [];
  for (let place = { row: 0, within: 0 }; place.row < lines.rows; ) {
    const next = block(lines, place, size);
    for (const row of searchBlock(next.block, asked)) if (hits.at(-1) !== place.row + row) hits.push(place.row + row);
    place = next.next;
  }
  return hits;
}

function log(text: string): Lines {
  const lines = new Lines();
  lines.append(bytes(text), Kind.stdout);
  return lines;
}

test("text, case and expressions", () => {
  const lines = log("Error: one\nfine\nan error and an Error\n\nError\r\nend");
  for (const [asked, want] of [
    [query("error"), [0, 2, 4]], [query("Error", { matchCase: true }), [0, 2, 4]], [query("error", { matchCase: true }), [2]], [query("none"), []], [query("."), []],
    [query("^error", { regexp: true }), [0, 4]], [query("error$", { regexp: true }), [2, 4]], [query("^$", { regexp: true }), [3]], [query("f.n", { regexp: true }), [1]],
    [query("e\\w+\\s+\\w+", { regexp: true }), [2]], [query("one\nfine", { regexp: true }), []],
  ] as [Query, number[]][]) {
    assert.deepEqual(rows(lines, asked), want, asked.text);
    for (const size of [1, 7, 16]) assert.deepEqual(rows(lines, asked, 5000 + size), want, asked.text);
  }
});

test("blocks of any size find the same", () => {
  const lines = log(Array.from({ length: 500 }, (_, i) => `line ${i} ${i % 13 === 0 ? "needle" : ""}`).join("\n"));
  lines.mark({ text: "needle" }); // not searched
  lines.append(bytes("needle"), Kind.stderr);
  const want = [...Array.from({ length: 39 }, (_, i) => i * 13), 501];
  for (const size of [30, 64, 1000, 1 << 20]) {
    assert.deepEqual(rows(lines, query("NEEDLE"), size), want);
    assert.deepEqual(rows(lines, query("nee?dle", { regexp: true }), size), want);
  }
});

test("lines are searched as they look", () => {
  const lines = log("\x1b[31mer\x1b[1mror\x1b[0m\nÜber straße\n10%\r20%\r99%\nzwölf\xff\n");
  assert.deepEqual(rows(lines, query("error")), [0]);
  assert.deepEqual(rows(lines, query("31m")), []);
  assert.deepEqual(rows(lines, query("über")), [1]);
  assert.deepEqual(rows(lines, query("10%")), []);
  assert.deepEqual(rows(lines, query("99%")), [2]);
  assert.deepEqual(rows(lines, query("ZWÖLF")), [3]);
});

test("a line longer than a block is searched in pieces", () => {
  const lines = log(`before\n${"x".repeat(20_000)}needle${"y".repeat(20_000)}\nafter needle\n`);
  assert.deepEqual(rows(lines, query("needle"), 8192), [1, 2]);
  assert.deepEqual(rows(lines, query("xneedley", { regexp: true }), 8192), [1]);
  assert.deepEqual(rows(lines, query("after"), 8192), [2]);
});

test("ranges of a line", () => {
  assert.deepEqual(ranges(expression(query("a.b")), "a.b axb A.B"), [[0, 3], [8, 11]]);
  assert.deepEqual(ranges(expression(query("x*", { regexp: true })), "ax👍x"), [[1, 2], [4, 5]]);
  assert.equal(ranges(expression(query("a")), "a".repeat(5000)).length, 1000);
  assert.throws(() => expression(query("(", { regexp: true })), SyntaxError);
});

test("streams", () => {
  assert.deepEqual([Kind.stdout, Kind.stderr, Kind.build, Kind.mark].map((kind) => matchesStream(kind, "stdout")), [true, false, false, true]);
  assert.deepEqual([Kind.stdout, Kind.stderr, Kind.build, Kind.mark].map((kind) => matchesStream(kind, "stderr")), [false, true, true, true]);
});
