// Compares the package with the errors of docs/errors.md and the types of spec/openapi.yaml.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import * as sdk from "../src/index.js";
import { errorKinds, errorOf } from "../src/error.js";

test("every code of docs/errors.md has its class, and no other has one", () => {
  const rows = [...readFileSync("../../docs/errors.md", "utf8").matchAll(/^\| `(\w+)` .*\| `(\w+)` \|$/gm)];
  assert.ok(rows.length > 15);
  assert.deepEqual(rows.map(([, code]) => code).sort(), Object.keys(errorKinds).sort());
  for (const [, code, name] of rows) {
    const error = errorOf({ code: code!, message: "m" });
    assert.equal(error.name, name);
    assert.equal((sdk as Record<string, unknown>)[name!] !== undefined, true, `${name} is exported`);
    assert.ok(error instanceof Error);
  }
});

test("a code of a newer server is an error all the same", () => {
  const error = errorOf({ code: "brand_new", message: "m", details: { a: 1 }, hint: "h" }, { status: 418 });
  assert.deepEqual([error.name, error.code, error.status, error.details, error.hint], ["BelljarError", "brand_new", 418, { a: 1 }, "h"]);
  assert.equal(errorOf({ code: "constructor", message: "m" }).name, "BelljarError");
});

test("a session that has ended has an error of its own", () => {
  const ended = errorOf({ code: "conflict", message: "m", details: { session_id: "x", state: "expired" } });
  assert.ok(ended instanceof sdk.SessionExpiredError && ended instanceof sdk.ConflictError);
  assert.equal(errorOf({ code: "conflict", message: "m", details: { path: "x" } }).name, "ConflictError");
});

test("the types are those of spec/openapi.yaml", () => {
  const dir = mkdtempSync(join(tmpdir(), "bj-ts-"));
  try {
    const made = join(dir, "openapi.ts");
    execFileSync(process.execPath, ["node_modules/openapi-typescript/bin/cli.js", "../../spec/openapi.yaml", "-o", made], { stdio: "pipe" });
    assert.ok(readFileSync(made, "utf8") === readFileSync("src/openapi.ts", "utf8"), "src/openapi.ts is stale: npm run types");
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});
