// Notebooks as files.
import assert from "node:assert/strict";
import { test } from "node:test";
import { outputOf, parse, serialize, tableOf } from "../../src/page/session/notebook/format.ts";

const jupyters = {
  cells: [
    { cell_type: "markdown", metadata: { tags: ["a"] }, source: ["# Title\n", "text"], attachments: { "a.png": {} } },
    {
      cell_type: "code", id: "same", metadata: {}, execution_count: 3, source: "x = 1\nx",
      outputs: [{ output_type: "execute_result", execution_count: 3, data: { "text/plain": ["1"] }, metadata: {} }, "no output", { output_type: 5 }],
    },
    { cell_type: "code", id: "same", metadata: {}, execution_count: null, source: [], outputs: [] },
    { cell_type: "raw", id: "r", metadata: {}, source: "raw" },
  ],
  metadata: { kernelspec: { name: "my-env", display_name: "My env", language: "python" }, custom: 1 }, nbformat: 4, nbformat_minor: 4,
};

test("a notebook of Jupyter keeps what this page does not know, and gets ids", () => {
  const book = parse(JSON.stringify(jupyters));
  assert.equal(book.language, "python");
  const again = JSON.parse(serialize(book)) as typeof jupyters & { nbformat_minor: number };
  assert.deepEqual([again.nbformat, again.nbformat_minor, again.metadata], [4, 5, jupyters.metadata]);
  const [text, code, empty, raw] = again.cells as unknown as Record<string, unknown>[];
  assert.deepEqual([text!["source"], text!["metadata"], text!["attachments"], "outputs" in text!], [["# Title\n", "text"], { tags: ["a"] }, { "a.png": {} }, false]);
  assert.deepEqual([code!["source"], code!["execution_count"], (code!["outputs"] as unknown[]).length], [["x = 1\n", "x"], 3, 1]);
  assert.deepEqual([empty!["source"], empty!["outputs"], empty!["execution_count"], raw!["cell_type"]], [[], [], null, "raw"]);
  const ids = again.cells.map((cell) => (cell as { id: string }).id);
  assert.ok(new Set(ids).size === 4 && ids.every((id) => /^[A-Za-z0-9_-]{1,64}$/.test(id)));
  assert.equal(serialize(parse(serialize(book))), serialize(book));
});

test("a new notebook, another language, and what is no notebook", () => {
  const book = parse("\n");
  assert.equal(book.cells.length, 1);
  const file = JSON.parse(serialize({ ...book, language: "javascript" })) as { metadata: { kernelspec: { language: string } } };
  assert.equal(file.metadata.kernelspec.language, "javascript");
  assert.equal(parse(JSON.stringify(file)).language, "javascript");
  for (const text of ["{", "[]", "null", '{"nbformat": 3, "cells": []}', '{"nbformat": 4, "cells": [1]}', '{"nbformat": 4}']) assert.throws(() => parse(text), /This (is not|notebook has)/, text);
});

test("a notebook without a kernelspec keeps what describes its language, and one without cells gets one", () => {
  const saved = (metadata: object, changes: object = {}) => (JSON.parse(serialize({ ...parse(JSON.stringify({ cells: [], metadata, nbformat: 4, nbformat_minor: 5 })), ...changes })) as { metadata: object }).metadata;
  for (const name of ["scala", "R", "python"]) {
    const metadata = { language_info: { name, file_extension: ".x", version: "2.13" }, custom: 1 };
    assert.deepEqual(saved(metadata), metadata, name);
  }
  assert.deepEqual(saved({ language_info: { name: "R" } }, { language: "bash" }), { kernelspec: { display_name: "Bash", language: "bash", name: "bash" }, language_info: { name: "bash" } });
  assert.deepEqual(saved({}), { kernelspec: { display_name: "Python", language: "python", name: "python3" }, language_info: { name: "python" } });
  assert.equal(parse('{"nbformat": 4, "cells": []}').cells.length, 1);
});

test("results become outputs, and hostile tables stay tables", () => {
  assert.deepEqual(outputOf({ type: "value", count: 2, data: { "text/plain": "1" } }), { output_type: "execute_result", execution_count: 2, data: { "text/plain": "1" }, metadata: {} });
  assert.deepEqual(outputOf({ type: "error", name: "E", value: "v", traceback: "a\nb" }), { output_type: "error", ename: "E", evalue: "v", traceback: ["a", "b"] });
  assert.equal(outputOf({ type: "input" }), undefined);
  assert.deepEqual(outputOf({ type: "error", name: "E", traceback: 5 } as unknown as Parameters<typeof outputOf>[0])!["traceback"], [""]);
  const table = tableOf({ schema: { fields: [{ name: "a" }, 5, { name: "__proto__" }] }, data: [{ a: "<b>" }, null, { a: { b: 1 } }], total_rows: "many" });
  assert.deepEqual(table, { columns: ["a", "", "__proto__"], rows: [["<b>", "", ""], ["", "", ""], ['{"b":1}', "", ""]], total: 3, totalColumns: 3 });
  for (const value of [null, 1, {}, { schema: {} }, { schema: { fields: [] } }]) assert.equal(tableOf(value), undefined);
  const wide = tableOf({ schema: { fields: Array.from({ length: 500 }, (_, i) => ({ name: `${i}` })) }, data: Array.from({ length: 5000 }, () => ({})), total_rows: 1e6 })!;
  assert.deepEqual([wide.columns.length, wide.totalColumns, wide.rows.length, wide.total], [100, 500, 1000, 1e6]);
});
