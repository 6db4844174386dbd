import assert from "node:assert/strict";
import { test } from "node:test";
import { limit, Scroll } from "../../src/log/scroll.ts";
import { random } from "./random.ts";

function scroll(rows: number, view = 600, rowHeight = 20): Scroll {
  const s = new Scroll();
  s.resize(rows, rowHeight, view);
  return s;
}

test("few rows scroll as they do without help", () => {
  const s = scroll(1000);
  assert.equal(s.height, 20_000);
  for (const top of [0, 1, 333, 19_400]) {
    s.moved(top);
    assert.equal(s.position, top);
    const { row, y } = s.anchor();
    assert.ok(Math.abs(row * 20 - y - top) < 1e-6, "the first row is where the browser would have it");
  }
});

test("properties of every size", () => {
  const pick = random(11);
  for (let round = 0; round < 400; round++) {
    const s = scroll(1 + pick(10 ** (1 + pick(9))), 100 + pick(1500), 12 + pick(20));
    assert.ok(s.height <= limit);
    const topEnd = Math.max(0, s.height - 0);
    assert.equal(s.positionOf(0), 0);
    assert.equal(s.topOf(0), 0);
    assert.ok(Math.abs(s.positionOf(s.topOf(s.end)) - s.end) < 1e-3, "the bar's end is the end");
    let before = -1;
    for (let i = 0; i <= 50; i++) {
      const at = (s.end * i) / 50;
      const top = s.topOf(at);
      assert.ok(top >= before && top <= topEnd, "the bar follows");
      before = top;
      assert.ok(Math.abs(s.positionOf(top) - at) <= Math.max(1e-6 * s.end, 1e-3), "there and back");
    }
    // Small movements go pixel by pixel, at every position.
    s.moveTo(s.end * (0.1 + pick(80) / 100));
    const [at, top] = [s.position, s.settle()];
    const by = Math.min(40, (s.end - at) / 2);
    if (by > 2 && top + by < s.topOf(s.end) - 2) {
      assert.equal(s.moved(top + by), true);
      assert.ok(Math.abs(s.position - at - by) < 1e-3);
      s.moved(top);
      assert.ok(Math.abs(s.position - at) < 1e-3);
    }
    assert.equal(s.moved(s.settle() + 0.4), false, "a rounded position is not the reader's");
    // A row that is shown is visible according to its anchor alone.
    const [view, wanted] = [200 + pick(900), pick(10 ** (1 + pick(7)))];
    const there = scroll(100 + wanted + pick(1000), view, 20);
    there.moveTo(there.showing(wanted));
    const { row, y } = there.anchor();
    const rowTop = y + (wanted - row) * 20;
    assert.ok(rowTop >= -1e-3 && rowTop + 20 <= view + 1e-3, `row ${wanted} is at ${rowTop} of ${view}`);
    // The anchor: at the start the first row at the top, at the end the last at the bottom.
    s.moveTo(0);
    assert.deepEqual(s.anchor(), { row: 0, y: 0 });
  }
});

test("both ends of a long log are exact", () => {
  const s = scroll(100_000_000);
  assert.equal(s.height, limit);
  s.moved(500_000);
  assert.equal(s.position, 500_000);
  s.moved(limit - 600 - 1000);
  assert.equal(s.position, s.end - 1000);
  s.moved(limit - 600);
  assert.equal(s.position, s.end);
  const { row, y } = s.anchor();
  assert.deepEqual([row, y], [100_000_000, 600]);
});

test("rows that come leave the reader where he is", () => {
  const s = scroll(1000);
  s.moved(5000);
  s.resize(2000, 20, 600);
  assert.equal(s.position, 5000);
  s.resize(2000, 30, 600);
  assert.equal(s.position, 7500, "the same row");
  s.resize(10, 30, 600);
  assert.equal(s.position, 0);
});
