// The pure parts of a session's page and its terminals.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ensureSyntaxTree } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { highlightTree, tagHighlighter, tags } from "@lezer/highlight";
import { indentOf, languageOf, support } from "../../src/editor/language.ts";
import { asText, contentOf, mostShown, textOf } from "../../src/page/session/content.ts";
import { shown, shownText } from "../../src/format.ts";
import { baseOf, byName, folderOf, inside, join, moved, wrongName } from "../../src/page/session/name.ts";
import { rulesOf, textOfRules } from "../../src/page/session/rules.ts";
import { endingOf, failureOf, pauseMs } from "../../src/terminal/ending.ts";
import { linesOf, titleOf } from "../../src/terminal/text.ts";

const utf8 = (text: string) => new TextEncoder().encode(text);

test("every character of a name can be seen", () => {
  assert.equal(shown("<img src=x onerror=alert(1)>"), "<img src=x onerror=alert(1)>");
  assert.equal(shown("a\nb\tc\0d\x7f"), "a⟨000A⟩b⟨0009⟩c⟨0000⟩d⟨007F⟩");
  assert.equal(shown("gpj\u202Eexe"), "gpj⟨202E⟩exe");
  assert.equal(shown("zero\u200Bwidth\uFEFF\u2028"), "zero⟨200B⟩width⟨FEFF⟩⟨2028⟩");
  assert.equal(shown("a\u3164b\u034F"), "a⟨3164⟩b⟨034F⟩"); // a letter and a mark, for Unicode
  assert.equal(shown("\u115F\u1160\u17B4\u17B5\u2065\uFFA0\uFFF0"), "⟨115F⟩⟨1160⟩⟨17B4⟩⟨17B5⟩⟨2065⟩⟨FFA0⟩⟨FFF0⟩");
  assert.equal(shown("한글 e\u0301 ❤\uFE0F"), "한글 e\u0301 ❤\uFE0F");
  assert.equal(shownText("a\n\tb\u202E\r"), "a\n\tb⟨202E⟩⟨000D⟩");
  assert.equal(shown("half \ud800 pair"), "half ⟨D800⟩ pair");
  assert.equal(shown("naïve 日本 👩 файл"), "naïve 日本 👩 файл");
});

test("paths are taken apart and put together", () => {
  assert.deepEqual(["a", "d/a", "d/e/a"].map((path) => [folderOf(path), baseOf(path)]), [["", "a"], ["d", "a"], ["d/e", "a"]]);
  assert.deepEqual([join("", "a"), join(".", "a"), join("d", "a")], ["a", "a", "d/a"]);
  assert.deepEqual([inside("a", "a"), inside("a/b", "a"), inside("ab", "a"), inside("a", "a/b")], [true, true, false, false]);
  assert.deepEqual([moved("a/b", "a", "c"), moved("a", "a", "c/d"), moved("ab", "a", "c")], ["c/b", "c/d", "ab"]);
});

test("names that no file can have are refused", () => {
  for (const good of ["a", "a b", ".hidden", "d/e.txt", "<img>", "..."]) assert.equal(wrongName(good), undefined, good);
  for (const bad of ["", "  ", "/a", "a/", "a//b", "..", "a/../b", ".", "a\0", "x".repeat(256), "é".repeat(128)]) assert.ok(wrongName(bad), bad);
  assert.deepEqual(["d", "d/x", "de/x"].map((to) => wrongName(to, "deep/d")), [undefined, "Nothing can go into itself.", undefined]);
});

test("folders come first, then names as people count", () => {
  const entries = ["b/a10", "b/A2", "b/a1", "b/z"].map((path) => ({ path, type: path === "b/z" ? "dir" : "file" }));
  assert.deepEqual(entries.sort(byName).map(({ path }) => path), ["b/z", "b/a1", "b/A2", "b/a10"]);
});

test("a file is text, a picture or bytes, whatever its name says", () => {
  const kind = (path: string, bytes: Uint8Array) => contentOf(path, bytes).kind;
  assert.equal(kind("x.png", utf8("<script>alert(1)</script>")), "text");
  assert.equal(kind("x.txt", new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0])), "picture");
  assert.equal(kind("x", new Uint8Array([0xff, 0xd8, 0xff, 0xe0])), "picture");
  assert.equal(kind("x.gif", utf8("GIF89a...")), "picture");
  assert.equal(kind("x.webp", utf8("RIFF\x01\n\x02\x03WEBP")), "picture");
  assert.equal(kind("x.svg", utf8("<svg xmlns='http://www.w3.org/2000/svg'/>")), "picture");
  assert.equal(kind("x.svg", utf8("not one")), "text");
  assert.equal(kind("x.html", utf8("<svg>")), "text");
  assert.equal(kind("x.txt", new Uint8Array([65, 0, 66])), "bytes");
  assert.equal(kind("x.txt", new Uint8Array([0xff, 0xfe])), "bytes");
  assert.equal(kind("empty", new Uint8Array()), "text");
  assert.equal(textOf(utf8("\uFEFFmark")), "\uFEFFmark");
  assert.equal(mostShown, 5 * 1024 * 1024);
});

test("line ends are kept where a file has one kind", () => {
  assert.deepEqual(asText("a\nb\n"), { kind: "text", text: "a\nb\n", eol: "\n", mixed: false });
  assert.deepEqual(asText("a\r\nb\r\n"), { kind: "text", text: "a\nb\n", eol: "\r\n", mixed: false });
  assert.deepEqual(asText("a\r\nb\nc\rd"), { kind: "text", text: "a\nb\nc\nd", eol: "\n", mixed: true });
  assert.deepEqual(asText("one line"), { kind: "text", text: "one line", eol: "\n", mixed: false });
});

test("rules are sorted by what they are", () => {
  const egress = rulesOf("example.com, *.example.org\n10.0.0.0/8 2001:db8::/32\n203.0.113.7\n2001:db8::7\n");
  assert.deepEqual(egress, { hosts: ["example.com", "*.example.org"], cidrs: ["10.0.0.0/8", "2001:db8::/32"], ips: ["203.0.113.7", "2001:db8::7"] });
  assert.deepEqual(rulesOf(textOfRules(egress)), egress);
  const presets = { hosts: ["example.com"], presets: ["pip", "github"] };
  assert.equal(textOfRules(presets), "example.com\npreset:pip\npreset:github");
  assert.deepEqual(rulesOf(textOfRules(presets)), presets);
  assert.deepEqual(rulesOf(" \n"), {});
  assert.deepEqual(rulesOf("https://example.com/x"), { hosts: ["https://example.com/x"] }, "the server says what is wrong with it");
});

test("the name of a file gives its language", () => {
  const languages = { "a/b.py": "python", "x.test.ts": "typescript", "Dockerfile": "dockerfile", "d/.bashrc": "shell", "A.JAVA": "java", "noext": "", ".hidden": "", "x.": "", "m.go": "go" };
  for (const [path, language] of Object.entries(languages)) assert.equal(languageOf(path), language, path);
  assert.deepEqual([indentOf("go"), indentOf("python"), indentOf("javascript")], ["\t", "    ", "  "]);
});

test("the keys of JSON have a colour of their own", async (t) => {
  const warned = t.mock.method(console, "warn", () => {});
  const state = EditorState.create({ doc: '{"key": "value"}', extensions: [await support("json")] });
  const found: string[] = [];
  highlightTree(ensureSyntaxTree(state, state.doc.length, 60_000)!, tagHighlighter([{ tag: tags.propertyName, class: "key" }]), (from, to) => found.push(state.sliceDoc(from, to)));
  assert.deepEqual(found, ['"key"']);
  assert.equal(warned.mock.callCount(), 0);
});

test("the page comes back by itself only to what may be there", () => {
  const again = (error: unknown) => failureOf(error).again;
  const broken = { code: "runtime_unavailable", message: "the connection to the terminal broke", details: { close_code: 1006 } };
  assert.deepEqual(failureOf(broken), { code: 1006, message: broken.message, hint: undefined, again: true });
  for (const code of ["unauthorized", "not_found", "session_expired", "invalid_request", "forbidden", "policy_denied"]) assert.equal(again({ code, message: "x" }), false, code);
  for (const close_code of [1008, 4001, 4004, 4010]) assert.equal(again({ code: "runtime_unavailable", message: "x", details: { close_code } }), false, String(close_code));
  assert.equal(again(new TypeError("x")), true);
  assert.equal(again(undefined), true);
  assert.deepEqual([endingOf({ kind: "replaced" }), endingOf({ kind: "overflow" })].map(({ code, again }) => [code, again]), [[4010, false], [4009, true]]);
  assert.deepEqual(["closed", "shutdown", "client closed", "idle_timeout"].map((reason) => endingOf({ kind: "closed", reason })).map(({ code, again }) => [code, again]), [[4004, false], [1001, true], [1000, false], [4008, false]]);
});

test("it waits 0.5 s, then longer, at most 10 s", () => {
  assert.deepEqual([0, 1, 2, 3, 4, 5, 6, 1e6].map(pauseMs), [500, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000]);
});

test("a title is one short line of text", () => {
  assert.equal(titleOf("vim <b>x</b>"), "vim <b>x</b>");
  assert.equal(titleOf(" a\nb\u202Ec\x1b[31m "), "abc[31m");
  assert.equal(titleOf("a\u3164b\u115F"), "ab");
  assert.equal([...titleOf("👩".repeat(200))].length, 60);
});

test("lines of a paste are counted as a shell runs them", () => {
  assert.deepEqual(["", "a", "a\n", "a\nb", "a\r\nb\r\n", "a\rb\rc", "\n\n\n\n\n\n"].map(linesOf), [1, 1, 1, 2, 2, 3, 6]);
});
