import assert from "node:assert/strict";
import { test } from "node:test";
import { colour, Flag, plain, render, strip, type Style } from "../../src/log/ansi.ts";
import { cpuMs } from "./cpu.ts";
import { random } from "./random.ts";

const looks = (text: string, start?: Style) => render(text, start).spans.map(({ text, style }) => [text, style.fg, style.bg, style.flags]);

test("colours and styles", () => {
  assert.deepEqual(looks("plain"), [["plain", -1, -1, 0]]);
  assert.deepEqual(looks("\x1b[31mred\x1b[0m not"), [["red", 1, -1, 0], [" not", -1, -1, 0]]);
  assert.deepEqual(looks("\x1b[1;4;97;101mx\x1b[22;24;39;49my"), [["x", 15, 9, Flag.bold | Flag.underline], ["y", -1, -1, 0]]);
  assert.deepEqual(looks("\x1b[38;5;208ma\x1b[48;2;1;2;3mb\x1b[7mc"), [["a", 208, -1, 0], ["b", 208, 0x1010203, 0], ["c", 208, 0x1010203, Flag.inverse]]);
  assert.deepEqual(looks("\x1b[38:2::1:2:3ma\x1b[38:5:9mb"), [["a", 0x1010203, -1, 0], ["b", 9, -1, 0]]);
  assert.deepEqual(looks("\x1b[38;5;999ma\x1b[38;2;1mb\x1b[38mc"), [["abc", -1, -1, 0]].map(([text, ...rest]) => [text, ...rest]));
  assert.deepEqual(render("\x1b[32mgreen").end, { fg: 2, bg: -1, flags: 0 });
  assert.deepEqual(looks("more\x1b[m", { fg: 2, bg: -1, flags: 0 }), [["more", 2, -1, 0]]);
});

test("forms of underlines and private sequences leave other styles as they are", () => {
  for (const [sequence, fg, flags] of [
    ["4:3", 1, Flag.underline], ["4:1;2", 1, Flag.underline | Flag.dim], ["4:0", 1, 0], ["4;4:0", 1, 0], ["4:", 1, Flag.underline], ["9:3", 1, 0],
    [">4;2", 1, 0], ["?4", 1, 0], ["<1", 1, 0], ["=0", 1, 0], [">4", 1, 0],
    ["58:2::255:0:0", 1, 0], ["58:5:1", 1, 0], ["58;2;1;0;3;2", 1, Flag.dim], ["58;5;1;2", 1, Flag.dim],
    ["38:2:1:2:3;1", 0x1010203, Flag.bold], ["38:2::1:2:3;1", 0x1010203, Flag.bold], ["38:5:9;1", 9, Flag.bold], ["38;2;1;2;3;1", 0x1010203, Flag.bold], ["38:5:999;1", 1, Flag.bold],
  ] as const) assert.deepEqual(looks(`\x1b[31m\x1b[${sequence}mx`), [["x", fg, -1, flags]], sequence);
});

test("colours are made of numbers", () => {
  assert.equal(colour(-1), undefined);
  assert.equal(colour(1), "var(--ansi-1)");
  assert.equal(colour(16), "#000000");
  assert.equal(colour(231), "#ffffff");
  assert.equal(colour(208), "#ff8700");
  assert.equal(colour(232), "#080808");
  assert.equal(colour(255), "#eeeeee");
  assert.equal(colour(0x1000000 + 0x0a0b0c), "#0a0b0c");
  for (let n = 16; n < 256; n++) assert.match(colour(n)!, /^#[0-9a-f]{6}$/);
});

test("a line that writes over itself", () => {
  for (const [text, want] of [
    ["10%\r20%\r100%", "100%"], ["long text\rshort", "shorttext"], ["long text\r\x1b[Kshort", "short"], ["abc\x1b[2K\rd", "d"], ["line\r", "line"], ["line\r\r\r", "line"],
    ["ab\x08c", "ac"], ["😀x\x08\x08Z", "Zx"], ["a\x08\x08\x08b", "b"], ["abc\x08\x08\x1b[1K", "  c"], ["abc\x1b[2Kd", "   d"], ["\x1b[2Jhome\x1b[Hx", "homex"],
  ] as const) assert.equal(strip(text), want, JSON.stringify(text));
  assert.deepEqual(looks("\x1b[31mabc\r\x1b[32mx"), [["x", 2, -1, 0], ["bc", 1, -1, 0]]);
});

test("what is not text is swallowed or made visible", () => {
  for (const [text, want] of [
    ["\x1b]0;title\x07a", "a"], ["\x1b]8;;https://evil.example/\x1b\\link\x1b]8;;\x1b\\", "link"], ["\x1b]52;c;cm0gLXJm\x07b", "b"],
    ["\x1bP1$r\x1b\\a", "a"], ["\x1b(Ba", "a"], ["\x1b=a\x1bMb", "ab"], ["\x1b[?25l\x1b[?2004ha", "a"],
    ["\x1b]never ends", "never ends"], ["\x1b[1;2", "1;2"], ["\x1b", ""], ["a\x07b", "ab"], ["a\tb", "a\tb"],
    ["a\0b\x7f", "a\u2400b\u2421"], ["\u202eevil\u202c", "\ufffdevil\ufffd"], ["\x9b31m", "\ufffd31m"], [`\x1b[${"1;".repeat(100)}mz`, `${"1;".repeat(100)}mz`],
    ["<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"],
  ] as const) assert.equal(strip(text), want, JSON.stringify(text));
});

test("no text is lost or made up, and time grows with length alone", () => {
  const pick = random(7);
  const pieces = ["a", "日本", "\x1b[31m", "\x1b[0m", "\x1b[38;2;9;9;9m", "\x1b]8;;x\x07", "\t", "\x1b[K", "é", "👩‍🔬", "\x1b", "[", "m", ";", "7"];
  for (let round = 0; round < 500; round++) {
    const text = Array.from({ length: pick(40) }, () => pieces[pick(pieces.length)]).join("");
    const { spans, end } = render(text, plain);
    for (const span of spans) assert.notEqual(span.text, "");
    const again = render(text, plain);
    assert.deepEqual(again, { spans, end });
    assert.equal(strip(strip(text)), strip(text));
  }
  const size = 256 << 10;
  for (const bomb of ["\r", "a\r", "\x1b", "\x1b[", "\x1b]", "\x1b]8;;", "\x1b[31m", "\x1b[31mx\x08", "\x1b[1K", "\x1b[2K", "\x1bP\x1b", "\x9b", "\x1b[38;2;1;2;3mx"]) {
    const text = bomb.repeat(size / bomb.length) + "end";
    const took = cpuMs(() => render(text));
    assert.ok(took < 2000, `${JSON.stringify(bomb)} took ${took} ms`);
  }
});
