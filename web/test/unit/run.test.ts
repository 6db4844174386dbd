import assert from "node:assert/strict";
import { briefOf, plainReason } from "../../src/page/approvals/reason.ts";
import { test } from "node:test";
import { table } from "../../src/page/run/csv.ts";
import { imageType, kindOf } from "../../src/page/run/kind.ts";
import { denialOf } from "../../src/page/run/network.ts";
import { outcomeOf } from "../../src/page/run/outcome.ts";
import { asBelljar, asCurl, asJson, repeatOf, sentSpec } from "../../src/page/run/spec.ts";
import { cpuMs } from "./cpu.ts";

type Told = Parameters<typeof outcomeOf>[0];
const start = "2026-01-01T00:00:00Z";
const now = Date.parse("2026-01-01T00:00:03.2Z");
const ended = { created_at: start, started_at: start, finished_at: "2026-01-01T00:00:01.2Z", exit_code: null };

test("one sentence for every end", () => {
  for (const [run, want] of [
    [{ phase: "completed", exit_code: 0 }, "Completed in 1.2 s"],
    [{ phase: "failed", exit_code: 1, reason_code: "nonzero_exit", message: "command exited with status 1" }, "Failed after 1.2 s: exit status 1"],
    [{ phase: "failed", exit_code: 1, reason_code: "oom_killed", message: "ran out of memory (limit 512 MiB)" }, "Failed after 1.2 s: exit status 1, out of memory (limit 512 MiB)"],
    [{ phase: "failed", exit_code: 137, signal: "SIGKILL", reason_code: "oom_killed", message: "ran out of memory (limit 64 MiB)" }, "Failed after 1.2 s: out of memory (limit 64 MiB)"],
    [{ phase: "failed", exit_code: 139, signal: "SIGSEGV", reason_code: "signaled", message: "command was killed by SIGSEGV" }, "Failed after 1.2 s: ended by SIGSEGV"],
    [{ phase: "failed", started_at: null, reason_code: "image_pull_failed", message: "no image x" }, "Failed before it began: no image x"],
    [{ phase: "failed", exit_code: null, reason_code: "compile_failed", message: "gcc exited with status 1" }, "Not built: gcc exited with status 1"],
    [{ phase: "failed", reason_code: "node_lost" }, "Failed after 1.2 s: node lost"],
    [{ phase: "failed" }, "Failed after 1.2 s: no reason is known"],
    [{ phase: "timed_out", reason_code: "execution_timeout", message: "command ran longer than 1 second" }, "Timed out after 1.2 s: command ran longer than 1 second"],
    [{ phase: "timed_out", started_at: null, reason_code: "startup_timeout", message: "the sandbox took longer than 20 seconds" }, "Timed out before it began: the sandbox took longer than 20 seconds"],
    [{ phase: "killed", reason_code: "canceled_by_user", message: "canceled_by_user" }, "Cancelled after 1.2 s"],
    [{ phase: "killed", started_at: null, reason_code: "canceled_by_user" }, "Cancelled before it began"],
    [{ phase: "killed", reason_code: "session_expired", message: "the session has expired" }, "Ended after 1.2 s: the session has expired"],
    [{ phase: "running", finished_at: null }, "Running for 3.2 s"],
    [{ phase: "starting", started_at: null, finished_at: null }, "Starting"],
    [{ phase: "queued", started_at: null, finished_at: null }, "Queued: it starts when there is room"],
    [{ phase: "queued", started_at: null, finished_at: null, estimated_start_time: "2026-01-01T00:00:33.2Z" }, "Queued: it starts in 30 s, if all goes well"],
    [{ phase: "queued", started_at: null, finished_at: null, approval: { state: "pending" } }, "Waits for an operator's approval"],
  ] as [Partial<Told>, string][]) assert.equal(outcomeOf({ ...ended, ...run } as Told, now), want);
});

type Run = Parameters<typeof repeatOf>[0];
const run = {
  ...ended, id: "r1", phase: "completed", spec_version: "1.1", runtime: "native", base_image: "python:3.12", image_digest: "sha256:abc", command: ["python3", "-c", "print('hi')"],
  resource_usage: { artifact_bytes: 0, log_bytes: 3, wall_time_sec: 1, limits: { cpu: 1, memory_mb: 512, pids: 0, timeout_sec: 60, nofile: 1024 } },
  env_names: ["LANG", "TOKEN"], network: { network_policy: "allowlist", egress: { hosts: ["*.example.com"], ips: ["203.0.113.7"] } },
  packages: { pip: [{ name: "requests", version: "2.1" }] }, git: { url: "https://example.com/a.git", ref: "main", commit: "c0ffee" },
} as unknown as Run;

test("a run can be repeated by what it tells", () => {
  const { spec, missing } = repeatOf(run, undefined);
  assert.deepEqual(spec, {
    spec_version: "1.1", base_image: "python@sha256:abc", runtime: "native", command: ["python3", "-c", "print('hi')"], timeout_sec: 60,
    env: { LANG: "…", TOKEN: "…" }, network_policy: "allowlist", egress: { hosts: ["*.example.com"], ips: ["203.0.113.7"] },
    resources: { cpu: 1, memory_mb: 512, nofile: 1024 }, packages: { pip: ["requests==2.1"] }, git: { url: "https://example.com/a.git", ref: "c0ffee" },
  });
  assert.ok(missing.some((one) => one === "the values of environment variables: LANG, TOKEN"));
  assert.deepEqual(asBelljar(spec).line,
    "belljar run --image python@sha256:abc --runtime native --allow '*.example.com' --allow 203.0.113.7 --pip requests==2.1 --git https://example.com/a.git --ref c0ffee --cpus 1 --memory 512m --nofile 1024 --timeout 60 --env 'LANG=…' --env 'TOKEN=…' -- python3 -c 'print('\\''hi'\\'')'");
  assert.deepEqual(repeatOf({ ...run, session_id: "s1" }, undefined).spec.base_image, undefined);
  assert.equal(asBelljar(repeatOf({ ...run, session_id: "s1" }, undefined).spec).line.startsWith("belljar session run s1 --timeout 60 --env"), true);
});

test("a run is repeated with its template, its disk and its presets", () => {
  const limits = { ...run.resource_usage!.limits, workspace_mb: 64 };
  const more = { ...run, env_names: [], git: undefined, packages: undefined, network: { network_policy: "allowlist", egress: { presets: ["pip"], hosts: ["a.example.com"] } }, resource_usage: { ...run.resource_usage!, limits } } as Run;
  const spec = (with_: object) => repeatOf({ ...more, ...with_ }, undefined).spec;
  const line = (with_: object) => asBelljar(spec(with_)).line;
  assert.equal(line({}), "belljar run --image python@sha256:abc --runtime native --allow a.example.com --allow-preset pip --cpus 1 --memory 512m --workspace 64m --nofile 1024 --timeout 60 -- python3 -c 'print('\\''hi'\\'')'");
  assert.deepEqual([spec({ template: "data" }).template, spec({ template: "data" }).base_image], ["data", undefined]);
  assert.match(line({ template: "data" }), /^belljar run --template data --runtime native /);
  for (const [workspace, want, flags] of [
    [{ medium: "disk", mb: 64 }, { medium: "disk", mb: 64 }, "--disk 64m"],
    [{ medium: "disk", mb: 64, volume: "v" }, { volume: "v", mb: 64 }, "--volume v --disk 64m"],
    [{ medium: "disk", mb: 64, volume: "v", read_only: true }, { volume: "v", read_only: true }, "--volume v:ro"],
  ] as const) {
    const { workspace: got, resources } = spec({ workspace });
    assert.deepEqual([got, resources?.workspace_mb], [want, undefined]);
    assert.ok(line({ workspace }).includes(` ${flags} --nofile`), line({ workspace }));
  }
  assert.deepEqual([spec({ template: "data", session_id: "s" }).template, spec({ workspace: { medium: "disk", mb: 64 }, session_id: "s" }).workspace], [undefined, undefined]);
  assert.ok(repeatOf({ ...run, snapshot_digest: "sha256:s" }, undefined).missing.includes("its snapshot"));
  assert.ok(!repeatOf({ ...run, snapshot_digest: "sha256:s", template: "data" }, undefined).missing.includes("its snapshot"));
  assert.ok(asBelljar({ command: ["true"], snapshot: "s1" }).line.startsWith("belljar run --snapshot s1 "));
  assert.deepEqual(asBelljar({ command: ["true"], labels: { a: "b" }, cwd: "d", build_cache: true }).missing, ["labels", "cwd", "build cache"]);
  const kept = { command: ["true"], resources: { log_bytes: 1000, artifact_mb: 5, pids: 8 } };
  assert.deepEqual(asBelljar(kept).missing, ["log bytes", "artifact mb"]);
  assert.deepEqual(asBelljar(kept, { log_bytes: 1000, artifact_mb: 64 }).missing, ["artifact mb"]);
});

test("code in a context is executed there again", () => {
  const inContext = { ...run, session_id: "s1", command: ["x = 1"], context: { name: "data", language: "python" }, env_names: [] } as unknown as Run;
  const { spec } = repeatOf(inContext, undefined);
  assert.deepEqual([spec.command, spec.code, spec.context, spec.language], [undefined, "x = 1", "data", "python"]);
  assert.equal(asBelljar(spec).line, "belljar session code s1 --context data --lang py --timeout 60 --code 'x = 1'");
  assert.equal(repeatOf(inContext, { session_id: "s1", context: "data", code: "y" }).spec.language, "python");
});

test("what was sent from here comes in full", () => {
  const sent = { base_image: "host", language: "python", code: "print('a b')", env: { A: "1 2" }, stdin: "x", files: [{ path: "a", content_b64: "" }] };
  const store = { getItem: (name: string) => (name === "belljar.spec.r1" ? JSON.stringify(sent) : name === "belljar.spec.bad" ? "{" : null) };
  assert.deepEqual(sentSpec("r1", store), sent);
  assert.equal(sentSpec("bad", store), undefined);
  assert.equal(sentSpec("none", store), undefined);
  assert.deepEqual(repeatOf(run, sent), { spec: sent, missing: [] });
  const { line, missing } = asBelljar(sent);
  assert.equal(line, "printf %s 'x' | belljar run --env 'A=1 2' --lang py --code 'print('\\''a b'\\'')'");
  assert.deepEqual(missing, ["files: give each with --file"]);
  assert.equal(JSON.parse(asJson(sent)).spec_version, "1.1");
  const curl = asCurl(sent, "http://127.0.0.1:8080");
  assert.match(curl, /^curl -sS -X POST 'http:\/\/127\.0\.0\.1:8080\/api\/v1\/sandbox\/runs\?wait=30s'/);
  assert.match(curl, /\$BELLJAR_API_KEY/);
});

test("CSV", () => {
  for (const [text, want] of [
    ["a,b\n1,2\n", [["a", "b"], ["1", "2"]]], ["a,b\r\n1,\r\n", [["a", "b"], ["1", ""]]], ['"x, ""y""",z\n', [['x, "y"', "z"]]], ['"two\nlines",b', [["two\nlines", "b"]]],
    ["a,", [["a", ""]]], ["", []], ['"open', [["open"]]], ["\ufeffa\n", [["a"]]], ["\n\nx", [[""], [""], ["x"]]], ["<b>,=1+1\n", [["<b>", "=1+1"]]],
  ] as [string, string[][]][]) assert.deepEqual(table(text, ",", 100), { rows: want, more: false, columns: Math.max(0, ...want.map((row) => row.length)) }, JSON.stringify(text));
  assert.deepEqual(table("a\tb\n", "\t", 9), { rows: [["a", "b"]], more: false, columns: 2 });
  assert.deepEqual(table("1\n2\n3\n", ",", 2), { rows: [["1"], ["2"]], more: true, columns: 1 });
  const wide = table(`${"x,".repeat(149)}x\n${"y,".repeat(119)}y\n`, ",", 9);
  assert.deepEqual([wide.columns, ...wide.rows.map((row) => row.length)], [150, 100, 100]);
  for (const bomb of ['"', ",", '""",']) assert.ok(cpuMs(() => table(bomb.repeat(1 << 20), ",", 1000)) < 2000);
});

test("how artifacts are looked at", () => {
  for (const [path, want] of [
    ["a/plot.PNG", "image"], ["x.svg", "svg"], ["t.csv", "csv"], ["t.tsv", "csv"], ["d.json", "json"], ["page.html", "text"], ["README", "text"], ["a.py", "text"], ["a.bin", "none"], ["a", "none"], ["png", "none"],
    ["constructor", "none"], ["a.constructor", "none"],
  ]) assert.equal(kindOf(path!), want, path);
  assert.equal(imageType(new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0])), "image/png");
  assert.equal(imageType(new TextEncoder().encode("<svg onload=alert(1)>")), undefined);
  assert.equal(imageType(new TextEncoder().encode("RIFF1234WEBPVP8 ")), "image/webp");
  assert.equal(imageType(new Uint8Array()), undefined);
});

test("denials have words", () => {
  assert.match(denialOf("no_match").then, /Add a rule/);
  assert.deepEqual(denialOf("brand_new"), { why: "brand new", then: "" });
  assert.deepEqual(denialOf("constructor"), { why: "constructor", then: "" });
  assert.deepEqual(denialOf(undefined), { why: "", then: "" });
});

test("the reason of an approval is a sentence", () => {
  for (const [reason, want] of [
    ["network: api.example.com 10.0.0.0/8 preset:pip", "It wants to reach api.example.com, 10.0.0.0/8, preset:pip"],
    ["network: no host", "It wants to reach no host"],
    ["secrets: A B (from PROD) C (from PROD, to api.example.com) D (to git.example.com, for git)", "It gets the secrets A B (from PROD) C (from PROD, to api.example.com) D (to git.example.com, for git)"],
    ["git: https://git.example.com/x at main with a patch of 5 bytes", "It clones https://git.example.com/x at main with a patch of 5 bytes"],
    ["packages: a b@1 (with build scripts)", "It installs a b@1 (with build scripts)"],
    ["image: docker.io/library/python:3.12", "It uses the image docker.io/library/python:3.12"], ["image=python:*", "It uses the image python:*"],
    ["cpu>2: 2.5", "It wants 2.5 processors; more than 2 processors needs an approval"], ["source=mcp", "It was sent by mcp"], ["something new", "something new"],
  ]) assert.equal(plainReason(reason!), want);
});

test("a command to approve says what of it is out of sight", () => {
  assert.deepEqual(briefOf("echo safe"), { head: "echo safe", more: undefined });
  assert.equal(briefOf(`echo safe${"\n".repeat(22)}rm -rf x`).more, "13 more lines");
  assert.equal(briefOf(`echo safe${" ".repeat(3000)}rm -rf x`).more, "2 KiB");
});
