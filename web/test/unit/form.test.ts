import assert from "node:assert/strict";
import { test } from "node:test";
import type { Run } from "../../../sdk/typescript/src/index.ts";
import { emptyForm, formOf, formOfRun, inLanguage, specOf } from "../../src/page/new/form.ts";
import { fromBase64, keepDraft, keptDraft, remember, remembered, toBase64, words } from "../../src/spec.ts";
import { ago, bytes, duration, moment, number, shellLine } from "../../src/format.ts";

test("a command line is taken apart as a shell does", () => {
  for (const [line, want] of [
    ["", []], ["  a  b ", ["a", "b"]], ["a 'b c' \"d e\"", ["a", "b c", "d e"]], ["a\\ b", ["a b"]], ["''", [""]], ["a''b", ["ab"]],
    ['"$HOME \\" \\x"', ['$HOME " \\x']], ["'a\\'", ["a\\"]], ["a\\\nb", ["ab"]], ["é'ü'", ["éü"]],
  ] as [string, string[]][]) assert.deepEqual(words(line), want, line);
  for (const line of ["'", 'a "b', "a 'b\""]) assert.throws(() => words(line), /open quote/);
});

test("what a shell line was made of comes out of it again", () => {
  for (const args of [["a"], ["a b", "c'd", '"', "\\", "", "$x", "a\nb"], ["-c", "print('x')"]]) assert.deepEqual(words(shellLine(args)), args);
});

test("a form becomes a request, and a request the same form", () => {
  assert.deepEqual(Object.keys(specOf({ ...emptyForm(), capture: "" })), ["language", "code"]);
  const form = {
    ...emptyForm(), kind: "command" as const, command: "run 'two words'", image: "python:3.11", runtime: "gvisor", timeoutSec: "5", memoryMb: "64", cpu: "0.5",
    env: "A=1\nB=x=y", capture: "*.csv\nout/**", allow: "api.example.com\n10.0.0.0/8, 203.0.113.7\n2001:db8::7", pip: "pandas[excel,html]>=2,<3\nnumpy", npm: "left-pad", git: "https://git.example.com/x", ref: "main", exec: true,
    files: [{ path: "a.bin", bytes: new Uint8Array([0, 255, 128]) }],
  };
  const spec = specOf(form);
  assert.deepEqual(spec.egress, { hosts: ["api.example.com"], cidrs: ["10.0.0.0/8"], ips: ["203.0.113.7", "2001:db8::7"] });
  assert.deepEqual(spec.resources, { memory_mb: 64, cpu: 0.5 });
  assert.deepEqual(spec.packages, { pip: ["pandas[excel,html]>=2,<3", "numpy"], npm: ["left-pad"] });
  assert.deepEqual(spec.env, { A: "1", B: "x=y" });
  assert.deepEqual(specOf(formOf(JSON.parse(JSON.stringify(spec)) as typeof spec)), spec);
  assert.throws(() => specOf({ ...form, env: "novalue" }), /NAME=value/);
  // A run in a session has no sandbox of its own, so it requests none.
  const inSession = specOf({ ...form, session: "s" });
  for (const field of ["base_image", "runtime", "resources", "egress", "network_policy", "packages", "git", "workspace_exec"]) assert.ok(!(field in inSession), field);
  const again = specOf(formOf({ session_id: "s", context: "c", language: "python", code: "x" }));
  assert.deepEqual([again.session_id, again.context, again.code, again.language], ["s", "c", "x", undefined]);
});

test("a program waits an hour for input that is typed", () => {
  const spec = specOf({ ...emptyForm(), interactive: true, stdin: "left out" });
  assert.deepEqual([spec.interactive, spec.stdin_idle_timeout_sec, spec.timeout_sec, spec.stdin], [true, 3600, 3600, undefined]);
  assert.equal(specOf({ ...emptyForm(), interactive: true }, 600).timeout_sec, 600, "no longer than the server accepts");
  assert.equal(specOf({ ...emptyForm(), interactive: true, timeoutSec: "7" }, 600).timeout_sec, 7);
  assert.equal(specOf(formOf({ ...spec, stdin_idle_timeout_sec: 5 })).stdin_idle_timeout_sec, 5, "as in the request that is repeated");
  assert.deepEqual(specOf(formOf(spec)), spec);
  assert.equal(specOf({ ...emptyForm(), stdin: "x" }).stdin_idle_timeout_sec, undefined);
});

test("in a full tab, the oldest requests make room for the newest and the draft", (t) => {
  // A storage has its entries as properties, and methods that are not enumerable.
  const size = (store: object) => Object.entries(store).reduce((sum, [key, value]) => sum + key.length + String(value).length, 0);
  const methods = {
    getItem(this: Record<string, string>, key: string) { return Object.hasOwn(this, key) ? this[key] : null; },
    removeItem(this: Record<string, string>, key: string) { delete this[key]; },
    setItem(this: Record<string, string>, key: string, value: string) {
      if (size({ ...this, [key]: value }) > 1000) throw new DOMException("full", "QuotaExceededError");
      this[key] = value;
    },
  };
  Object.assign(globalThis, { sessionStorage: Object.create(methods) as Storage });
  t.after(() => Reflect.deleteProperty(globalThis, "sessionStorage"));
  const id = (n: number) => `01990000-0000-7000-8000-00000000000${n}`;
  for (let n = 0; n < 6; n++) remember(id(n), { code: String(n).repeat(250) });
  assert.deepEqual([0, 1, 2, 3, 4, 5].map((n) => remembered(id(n))?.code?.length), [undefined, undefined, undefined, 250, 250, 250]);
  keepDraft({ code: "d".repeat(300) });
  assert.deepEqual(keptDraft(), { code: "d".repeat(300) });
  assert.deepEqual([3, 4, 5].map((n) => remembered(id(n))?.code?.length), [undefined, 250, 250]);
  keepDraft({ code: "x".repeat(3 << 20) });
  assert.deepEqual([4, 5].map((n) => remembered(id(n))?.code?.length), [250, 250], "a draft that is too large takes nothing away");
});

test("an earlier run brings what the server knows of it", () => {
  const run = {
    id: "r", command: ["a", "b c"], base_image: "python:3.11", runtime: "gvisor", network: { network_policy: "allowlist", egress: { hosts: ["api.example.com"], cidrs: ["10.0.0.0/8"] } },
    packages: { pip: [{ name: "numpy", version: "2.1.0", sha256: [] }], npm: [{ name: "left-pad", version: "1.3.0" }] }, git: { url: "https://git.example.com/x", ref: "main", commit: "c0ffee" },
  };
  const spec = specOf(formOfRun(run as unknown as Run));
  assert.deepEqual([spec.command, spec.network_policy, spec.egress], [["a", "b c"], "allowlist", run.network.egress]);
  assert.deepEqual([spec.packages, spec.git], [{ pip: ["numpy==2.1.0"], npm: ["left-pad@1.3.0"] }, { url: "https://git.example.com/x", ref: "c0ffee" }]);
  // Code that was executed in a context can also run without one, in its language.
  for (const [language, name] of [["javascript", "javascript"], ["bash", "shell"], ["ipython", "python"]]) {
    const apart = { ...formOfRun({ id: "r", command: ["x"], session_id: "s", context: { name: "c", language } } as unknown as Run), context: "" };
    assert.deepEqual([specOf(apart).language, specOf(apart).code], [name, "x"]);
  }
});

test("an earlier run brings its template, its disk and its presets", () => {
  const run = {
    id: "r", command: ["a"], base_image: "python:3.11", runtime: "native", template: "data", workspace: { medium: "disk", mb: 64, volume: "v" },
    network: { network_policy: "allowlist", egress: { presets: ["pip"] } },
  } as unknown as Run;
  const spec = specOf(formOfRun(run));
  assert.deepEqual([spec.base_image, spec.template, spec.workspace, spec.egress], [undefined, "data", { volume: "v", mb: 64 }, { presets: ["pip"] }]);
  assert.deepEqual(specOf(formOf(JSON.parse(JSON.stringify(spec)) as typeof spec)), spec);
  const inSession = specOf(formOfRun({ ...run, session_id: "s" }));
  assert.deepEqual([inSession.template, inSession.workspace, inSession.egress], [undefined, undefined, undefined]);
});

test("an earlier run brings the limits that the form has no fields for, if they are its own", () => {
  const resource_usage = { limits: { timeout_sec: 60, cpu: 1, memory_mb: 512, pids: 8, workspace_mb: 1024, nofile: 64, log_bytes: 1000, artifact_mb: 64, tmp_mb: 64, cpu_time_sec: 5 } };
  const run = { id: "r", command: ["a"], resource_usage } as unknown as Run;
  const usual = { cpu: 1, memory_mb: 512, pids: 256, workspace_mb: 256, nofile: 1024, log_bytes: 1000, artifact_mb: 64 } as Parameters<typeof formOfRun>[1];
  const spec = specOf(formOfRun(run, usual));
  assert.deepEqual([spec.resources, spec.cpu_time_sec], [{ cpu: 1, memory_mb: 512, pids: 8, workspace_mb: 1024, nofile: 64 }, 5]);
  assert.deepEqual(specOf(formOf(JSON.parse(JSON.stringify(spec)) as typeof spec)), spec, "this tab repeats it, too");
  assert.deepEqual(specOf(formOfRun(run)).resources, { cpu: 1, memory_mb: 512, pids: 8, workspace_mb: 1024, nofile: 64, log_bytes: 1000, artifact_mb: 64 });
  assert.equal(specOf(formOfRun({ ...run, template: "data" }, usual)).resources?.log_bytes, 1000, "its template may have another");
  assert.equal(formOfRun({ ...run, resource_usage: { limits: { ...usual, timeout_sec: 60 } } } as unknown as Run, usual).limits, undefined);
  const inSession = specOf(formOfRun({ ...run, session_id: "s" }, usual));
  assert.deepEqual([inSession.resources, inSession.cpu_time_sec], [undefined, 5]);
  const without = specOf({ ...formOfRun(run, usual), limits: undefined });
  assert.deepEqual([without.resources, without.cpu_time_sec], [{ cpu: 1, memory_mb: 512 }, undefined]);
});

test("the beginning of a command is no command", () => {
  for (const more of [{}, { session_id: "s", context: { name: "c", language: "python" } }]) {
    const form = formOfRun({ id: "r", command: ["echo 'it is lon"], command_truncated: true, ...more } as unknown as Run);
    assert.throws(() => specOf(form), /only its beginning/);
    assert.throws(() => specOf(JSON.parse(JSON.stringify(form)) as typeof form), /only its beginning/, "after a reload, too");
    assert.doesNotThrow(() => specOf({ ...form, command: `${form.command} # mine`, code: `${form.code}g'` }));
  }
});

test("a language brings its example, and leave to execute what is compiled", () => {
  const go = { ...emptyForm(), ...inLanguage(emptyForm(), "go") };
  assert.match(go.code, /package main/);
  assert.deepEqual([specOf(go).workspace_exec, inLanguage({ ...go, code: "mine" }, "python")], [true, { language: "python", code: "mine", exec: false }]);
});

test("bytes travel as they are", () => {
  const all = Uint8Array.from({ length: 100_000 }, (_, i) => i * 7);
  assert.deepEqual(fromBase64(toBase64(all)), all);
});

test("figures are for people", () => {
  assert.deepEqual([0, 1023, 1024, 1536, 1048576 * 150].map(bytes), ["0 B", "1023 B", "1 KiB", "1.5 KiB", "150 MiB"]);
  assert.deepEqual([0, 8, 1200, 59_999, 60_000, 184_000, 3_600_000, 7_500_000, 200_000_000].map(duration),
    ["0 ms", "8 ms", "1.2 s", "1 min", "1 min", "3 min 4 s", "1 h", "2 h 5 min", "2 days"]);
  assert.deepEqual([0, 999, 1000, 1250000, -12345, 1234.56].map(number), ["0", "999", "1,000", "1,250,000", "-12,345", "1,234.56"]);
  assert.match(moment("2026-01-02T03:04:05Z"), /^2026-01-0[123] [0-2]\d:[0-5]\d:05$/);
  const now = Date.parse("2026-01-01T00:00:00Z");
  assert.deepEqual(["2025-12-31T23:59:59.500Z", "2025-12-31T23:58:00Z", "2026-01-01T01:00:00Z"].map((time) => ago(time, now)), ["just now", "2 min ago", "in 1 h"]);
});
