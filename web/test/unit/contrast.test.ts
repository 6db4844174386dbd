import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { render } from "../../src/log/ansi.ts";
import { contrastOf, themed } from "../../src/log/contrast.ts";
import { partsOf } from "../../src/log/row.ts";

// The colours of theme.css, as [light, dark].
const css = new Map([...readFileSync("src/theme.css", "utf8").matchAll(/(--[\w-]+): light-dark\(#(\w{6}), #(\w{6})\)/g)].map(([, name, ...two]) => [name!, two.map((n) => Number.parseInt(n, 16))]));

/** pairOf returns a CSS colour in both themes. */
function pairOf(colour: string): number[] {
  const named = /^var\((.*)\)$/.exec(colour);
  if (named) return css.get(named[1]!)!;
  const all = [...colour.matchAll(/#(\w{6})/g)].map(([, n]) => Number.parseInt(n!, 16));
  return [all[0]!, all.at(-1)!];
}

const partOf = (sequence: string) => partsOf(render(`\x1b[${sequence}mx`).spans, { files: false })[0]!;

/** least returns the lower contrast of a part of a log in the two themes. */
function least(sequence: string): number {
  const { fg = "var(--ink)", bg = "var(--surface)" } = partOf(sequence);
  const [front, back] = [pairOf(fg), pairOf(bg)];
  return Math.min(...[0, 1].map((theme) => contrastOf(front[theme]!, back[theme]!)));
}

test("the colours are those of theme.css", () => {
  for (const [name, pair] of [["surface", themed.surface], ["ink", themed.ink], ...themed.ansi.map((pair, n) => [`ansi-${n}`, pair] as const)] as const) assert.deepEqual(css.get(`--${name}`), [...pair], name);
});

test("contrast is that of WCAG", () => {
  assert.equal(contrastOf(0, 0xffffff), 21);
  assert.equal(contrastOf(0x777777, 0xffffff).toFixed(2), "4.48");
});

test("text of every colour can be read, in both themes", () => {
  const plain = ["39", ...Array.from({ length: 8 }, (_, n) => [`3${n}`, `9${n}`]).flat(), "38;5;16", "38;5;46", "38;5;123", "38;5;231", "38;5;240", "38;2;255;255;255", "38;2;0;0;0", "38;2;128;128;128", "38;2;255;255;0"];
  const grounds = plain.map((one) => (one.startsWith("9") ? `10${one[1]}` : `4${one.slice(1)}`));
  for (const fg of plain) for (const bg of grounds) for (const inverse of ["", ";7"]) {
    const sequence = `${fg};${bg}${inverse}`;
    assert.ok(least(sequence) >= 4.5, `${sequence} has ${least(sequence)}: ${JSON.stringify(partOf(sequence))}`);
  }
});

test("colours that can be read stay", () => {
  assert.deepEqual(partOf("31"), { text: "x", fg: "var(--ansi-1)", bg: undefined, flags: 0 });
  assert.deepEqual(partOf("38;2;0;0;0;48;2;255;255;255"), { text: "x", fg: "#000000", bg: "#ffffff", flags: 0 });
  assert.deepEqual(partOf("40"), { text: "x", fg: "light-dark(#8a8c8d, #2e2f2f)", bg: "var(--ansi-0)", flags: 0 });
});
