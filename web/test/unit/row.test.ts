import assert from "node:assert/strict";
import { test } from "node:test";
import { plain } from "../../src/log/ansi.ts";
import { Kind, Lines } from "../../src/log/lines.ts";
import { filePlaces, lineHash, lineRange } from "../../src/log/links.ts";
import { mostShown, partsOf, shown, showRow, styleBefore } from "../../src/log/row.ts";
import { expression } from "../../src/log/search.ts";
import { cpuMs } from "./cpu.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const look = { files: false, open: () => false };

test("line links", () => {
  for (const [hash, want] of [["#L7", { from: 7, to: 7 }], ["#L7-L9", { from: 7, to: 9 }], ["#L9-L7", { from: 7, to: 9 }], ["#L7-9", { from: 7, to: 9 }]] as const) assert.deepEqual(lineRange(hash), want);
  for (const bad of ["", "#", "#L", "#L0", "#L-1", "#L1x", "#L1-L", "#k=abc", "#L99999999999999", "#L1-L2-L3", "#l1"]) assert.equal(lineRange(bad), undefined, bad);
  assert.equal(lineHash({ from: 3, to: 3 }), "#L3");
  assert.equal(lineHash({ from: 3, to: 8 }), "#L3-L8");
});

test("files of the workspace in stack traces", () => {
  const found = (text: string) => filePlaces(text).map(({ from, to, path, line }) => [text.slice(from, to), path, line]);
  assert.deepEqual(found('  File "/workspace/app/main.py", line 12, in <module>'), [['/workspace/app/main.py", line 12', "app/main.py", 12]]);
  assert.deepEqual(found("    at run (/workspace/a.js:3:15)"), [["/workspace/a.js:3:15", "a.js", 3]]);
  assert.deepEqual(found("\t/workspace/main.go:9 +0x1d"), [["/workspace/main.go:9", "main.go", 9]]);
  assert.deepEqual(found("see /workspace/out.txt."), [["/workspace/out.txt", "out.txt", undefined]]);
  assert.deepEqual(found("/workspace/../etc/passwd:1 /workspace/ /workspace/a/ /work/x:1"), []);
  assert.ok(cpuMs(() => filePlaces("/workspace/".repeat(20_000) + ".".repeat(50_000) + "x")) < 1000);
});

test("a mark shows what turns text around, and is one line", () => {
  const lines = new Lines();
  lines.mark({ text: "Network: \u202emoc\nx was denied" });
  const { row } = showRow(lines, 0, plain, look);
  assert.deepEqual(row.parts.map((part) => part.text), ["Network: ⟨202E⟩moc⟨000A⟩x was denied"]);
});

test("parts are cut where a look, a hit or a link begins or ends", () => {
  const text = "at /workspace/a.js:3 fails";
  const spans = [{ text: text.slice(0, 8), style: plain }, { text: text.slice(8), style: { fg: 1, bg: -1, flags: 16 } }];
  const parts = partsOf(spans, { found: expression({ text: "a", regexp: false, matchCase: false }), files: true });
  assert.equal(parts.map((part) => part.text).join(""), text);
  assert.deepEqual(parts.filter((part) => part.hit).map((part) => part.text), ["a", "a", "a", "a"]);
  assert.equal(parts.filter((part) => part.file).map((part) => part.text).join(""), "/workspace/a.js:3");
  assert.deepEqual(parts.at(-1), { text: "ils", fg: "var(--surface)", bg: "var(--ansi-1)", flags: 16 });
  assert.deepEqual(partsOf([], { files: true }), []);
});

test("long lines are cut, and opened to a bound", () => {
  const lines = new Lines();
  lines.append(bytes("x".repeat(1_000_000) + "\n" + Array.from({ length: 3000 }, (_, i) => `${i}%`).join("\r") + "\n"), Kind.stdout);
  const first = showRow(lines, 0, plain, look).row;
  assert.deepEqual([first.parts[0]!.text.length, first.cut, first.open], [shown, 1_000_000 - shown, false]);
  const open = showRow(lines, 0, plain, { ...look, open: () => true }).row;
  assert.deepEqual([open.parts[0]!.text.length, open.cut, open.open], [mostShown, 1_000_000 - mostShown, true]);
  assert.equal(showRow(lines, 1, plain, look).row.parts[0]!.text, "2999%", "a progress bar shows its end");
});

test("colours go on in the next line of the same stream", () => {
  const lines = new Lines();
  lines.append(bytes("\x1b[31mred\nstill\n"), Kind.stdout);
  lines.append(bytes("other\n"), Kind.stderr);
  lines.append(bytes("on\x1b[0m\noff\n"), Kind.stdout);
  assert.deepEqual([0, 1, 2, 3, 4].map((row) => showRow(lines, row, styleBefore(lines, row), look).row.parts.map((part) => part.fg)), [
    ["var(--ansi-1)"], ["var(--ansi-1)"], [undefined], ["var(--ansi-1)"], [undefined],
  ]);
  const long = new Lines();
  long.append(bytes("\x1b[31m" + "x".repeat(shown) + "\x1b[0m\nnext\n"), Kind.stdout);
  const first = showRow(long, 0, plain, look);
  assert.deepEqual([first.end, styleBefore(long, 1)], [plain, plain], "a line that is cut colours nothing after it");
  const bomb = new Lines();
  bomb.append(new Uint8Array(30 << 20).fill(27), Kind.stdout);
  bomb.append(bytes("\nnext\n"), Kind.stdout);
  assert.ok(cpuMs(() => {
    showRow(bomb, 1, styleBefore(bomb, 1), look);
    showRow(bomb, 0, plain, { ...look, open: () => true });
  }) < 1000);
});
