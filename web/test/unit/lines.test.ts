import assert from "node:assert/strict";
import { test } from "node:test";
import { Kind, Lines } from "../../src/log/lines.ts";
import { random } from "./random.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const textOf = (lines: Lines, row: number) => new TextDecoder().decode(lines.read(...lines.content(row)));
const all = (lines: Lines) => Array.from({ length: lines.rows }, (_, row) => [lines.kind(row), lines.number(row), lines.markAt(row)?.text ?? textOf(lines, row)]);

test("rows of two streams and marks", () => {
  const lines = new Lines();
  lines.append(bytes("one\ntw"), Kind.stdout);
  lines.append(bytes("o\n\nprompt> "), Kind.stdout);
  lines.append(bytes("oops\n"), Kind.stderr);
  lines.append(bytes("42\n"), Kind.stdout);
  lines.mark({ text: "cut" });
  lines.append(bytes("half"), Kind.stdout);
  lines.mark({ text: "end" });
  assert.deepEqual(all(lines), [
    [0, 1, "one"], [0, 2, "two"], [0, 3, ""], [0, 4, "prompt> "], [1, 5, "oops"], [0, 6, "42"], [3, 0, "cut"], [0, 7, "half"], [3, 0, "end"],
  ]);
  assert.equal(lines.lines, 7);
  assert.deepEqual([0, 1, 6, 7, 8].map((n) => lines.rowOf(n)), [undefined, 0, 5, 7, undefined]);
});

test("an empty log, and one without a newline", () => {
  const lines = new Lines();
  assert.equal(lines.rows, 0);
  lines.append(new Uint8Array(), Kind.stdout);
  assert.equal(lines.rows, 0);
  lines.append(bytes("x"), Kind.stdout);
  assert.deepEqual(all(lines), [[0, 1, "x"]]);
});

test("however output is cut, the rows are the same", () => {
  const pick = random(3);
  for (let round = 0; round < 30; round++) {
    const text = Array.from({ length: 3000 }, () => ["a", "bc", "\n", "ü", "\n\n"][pick(5)]).join("");
    const raw = bytes(text);
    const lines = new Lines();
    for (let at = 0; at < raw.length; ) {
      const size = 1 + pick(50);
      lines.append(raw.subarray(at, at + size), Kind.stdout);
      at += size;
      if (pick(40) === 0 && text) lines.append(new Uint8Array(), Kind.stdout);
    }
    const want = text.endsWith("\n") ? text.slice(0, -1).split("\n") : text.split("\n");
    assert.deepEqual(all(lines).map(([, , line]) => line), text === "" ? [] : want);
    for (let n = 1; n <= lines.lines; n += 97) assert.equal(lines.number(lines.rowOf(n)!), n);
    for (let i = 0; i < 50; i++) {
      const at = pick(lines.size);
      const row = lines.rowAt(at);
      assert.ok(lines.start(row) <= at && at < lines.start(row + 1));
    }
  }
});

test("a line over several chunks, and marks among many lines", () => {
  const lines = new Lines();
  const big = new Uint8Array((3 << 20) + 5).fill(120);
  lines.append(big, Kind.stdout);
  lines.append(bytes("\nlast\n"), Kind.stdout);
  assert.equal(lines.rows, 2);
  assert.deepEqual(lines.content(0), [0, big.length]);
  assert.equal(textOf(lines, 1), "last");
  assert.equal(lines.read(0, big.length).every((byte) => byte === 120), true);
  for (let i = 0; i < 5000; i++) {
    if (i % 7 === 0) lines.mark({ text: "m" });
    lines.append(bytes("y\n"), i % 2 ? Kind.stdout : Kind.stderr);
  }
  for (let row = 0, n = 0; row < lines.rows; row++) {
    if (lines.markAt(row)) assert.equal(lines.number(row), 0);
    else {
      assert.equal(lines.number(row), ++n);
      assert.equal(lines.rowOf(n), row);
    }
  }
});
