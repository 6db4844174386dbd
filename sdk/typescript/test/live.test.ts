// The whole API, against a real belljar.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  Belljar, BelljarError, CanceledError, ConflictError, ForbiddenError, IdempotencyConflictError, InvalidRequestError, NotFoundError, PreconditionFailedError, PathEscapesError, PolicyDeniedError,
  SandboxClient, SessionExpiredError, UnauthorizedError, type FailureFrame, type RunFailure, type Session, type TerminalEvent,
} from "belljar-sdk";
import { atEnd, client, fake, local, serve, until, within, type Owner } from "./world.js";

let belljar: Belljar;
let end: () => unknown;

before(async () => {
  belljar = await local({ after: (all) => (end = all) });
});
after(() => end());

async function keep(t: Owner): Promise<Session> {
  const session = await belljar.sessions.create();
  atEnd(t, () => session.destroy());
  return session;
}

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString();

test("code that remembers", async (t) => {
  const session = await keep(t);
  assert.equal((await session.code("x = 41")).value, "");
  const result = await session.code("print('out'); display('shown'); x + 1");
  assert.deepEqual([result.value, result.stdout, result.error, result.results.map((r) => r.type)], ["42", "out\n", undefined, ["display", "value"]]);
  const printed: string[] = [];
  const failed = await session.code("print('out')\n1/0", { onOutput: (frame) => printed.push(frame.type) }); // this reads the results from the log
  assert.deepEqual([failed.error?.name, failed.exitCode, printed.includes("stdout")], ["ZeroDivisionError", 1, true]);
  assert.equal((await session.code("const y = await Promise.resolve(5); y", { language: "js" })).value, "5");
  assert.deepEqual((await session.contexts()).map((c) => c.name), ["javascript", "python"]);
  assert.equal((await session.restartContext("python")).state, "idle");
  assert.equal((await session.code("x")).error?.name, "NameError");
  await session.deleteContext("javascript");
  assert.equal((await session.createContext({ language: "bash", name: "sh" })).language, "bash");
});

test("shell API: sessions that remember", async (t) => {
  const server = await serve(t);
  const sandboxes = new SandboxClient({ baseUrl: server.url, apiKey: server.apiKey });
  atEnd(t, () => sandboxes.close());
  const session = await sandboxes.createSession({ image: "host", ttlSeconds: 600 });
  assert.equal(typeof session.id, "string");
  await session.exec("cd /tmp && export WHO=you && greet() { echo hello $WHO; }");
  const result = await session.exec("greet; pwd; exit_code() { return 7; }; exit_code", { timeoutMs: 30_000 });
  assert.deepEqual([result.exitCode, result.cwd, result.output, result.truncated], [7, "/tmp", "hello you\n/tmp\n", false]);
  assert.ok(result.durationMs >= 0);
  await session.write("dir/a.txt", "first");
  await session.write("dir/a.txt", "second €");
  await session.write("b.bin", Uint8Array.of(0, 255, 128));
  assert.equal(text(await session.read("dir/a.txt")), "second €");
  assert.equal(text(await session.read("dir/a.txt", { maxBytes: 3 })), "sec");
  assert.deepEqual([...(await session.read("/workspace/b.bin"))], [0, 255, 128]);
  await session.write("prog", "#!/bin/sh\necho ran");
  assert.equal((await session.exec("cd /workspace; chmod +x prog; ./prog")).output, "ran\n"); // the workspace allows programs to be executed

  const again = await sandboxes.getSession(session.id);
  assert.equal((await again.exec("echo $WHO")).output, "you\n");
  const [info] = await sandboxes.listSessions();
  assert.deepEqual([info!.id, info!.image, info!.status, info!.cwd], [session.id, "host", "running", "/workspace"]);
  assert.ok(info!.expiresAt > info!.createdAt && info!.lastActivity >= info!.createdAt);
  await session.destroy();
  await session.destroy();
  assert.equal((await sandboxes.listSessions())[0]!.status, "destroyed");
  await assert.rejects(session.exec("true"), SessionExpiredError);
  await assert.rejects(sandboxes.getSession("01900000-0000-7000-8000-000000000000"), NotFoundError);
  await assert.rejects(sandboxes.createSession({ image: "no-such-image" }), (e: unknown) => e instanceof BelljarError && e.code === "image_unavailable");
  const stranger = new SandboxClient({ baseUrl: server.url, apiKey: "nobody's" });
  atEnd(t, () => stranger.close());
  await assert.rejects(stranger.listSessions(), UnauthorizedError);
});

test("shell API: commands that take long, read, kill and print too much", async (t) => {
  const session = await keep(t);
  for (let timeoutMs = 500; ; timeoutMs *= 4) { // a busy machine may need longer to start
    const late = await session.exec("echo begun; : > /workspace/begun; sleep 6000", { timeoutMs });
    assert.deepEqual([late.exitCode, late.timedOut], [124, true]);
    if (!(await session.files.exists("begun"))) continue;
    assert.equal(late.output, "begun\n");
    break;
  }
  assert.equal((await session.exec("cat /dev/tty; echo done")).output, "done\n");
  assert.equal((await session.exec("cat", { stdin: "typed ü" })).output, "typed ü");
  const apart = await session.exec("echo out; echo err >&2", { separate: true });
  assert.deepEqual([apart.stdout, apart.stderr, apart.exitCode], ["out\n", "err\n", 0]);
  const gone = await session.exec("exit 3");
  assert.deepEqual([gone.exitCode, gone.shell], [3, "replaced"]);
  const much = await session.exec("yes 0123456789abcde | head -c 3000000", { separate: true });
  assert.deepEqual([much.truncated, much.outputBytes.length], [true, 1 << 20]);
  const seen: string[] = [];
  const steps = await session.exec("for i in 1 2 3; do echo step $i; done", { onOutput: (frame) => seen.push(frame.text) });
  assert.deepEqual([seen.join(""), steps.output], ["step 1\nstep 2\nstep 3\n", "step 1\nstep 2\nstep 3\n"]);
  await assert.rejects(session.exec(""), InvalidRequestError);
  await assert.rejects(session.exec("true", { timeoutMs: -1 }), InvalidRequestError);
});

test("a command that is given up ends", async (t) => {
  const session = await keep(t);
  const stop = new AbortController();
  let begun = false;
  const running = session.exec("echo begun; sleep 600", { signal: stop.signal, onOutput: () => void (begun = true) });
  const failed = running.catch((e: unknown) => e);
  await until("its output", () => begun);
  stop.abort();
  assert.ok((await within("the end", failed)) instanceof CanceledError);
  await within("the next command", session.exec("true")); // commands run one after the other

  const angry = session.exec("echo begun; sleep 600", { onOutput: () => { throw new Error("no more"); } });
  await assert.rejects(angry, /no more/);
  await within("the next command", session.exec("true"));
});

test("a command's stream that breaks is taken up", async (t) => {
  const server = await serve(t);
  let broken = 0;
  const way = await fake(t, async (request, response) => {
    const answer = await fetch(server.url + request.url, { method: request.method!, headers: request.headers as Record<string, string>, ...(request.method === "POST" ? { body: way.asked.at(-1)!.body } : {}) });
    response.writeHead(answer.status, { "Content-Type": answer.headers.get("content-type") ?? "" });
    let passed = "";
    for await (const piece of answer.body ?? []) {
      passed += text(piece as Uint8Array);
      // Break once before the run's id is known, and once in the middle of the output.
      const breaks = request.url!.endsWith("/shell") && (broken === 0 || (broken === 1 && passed.includes("chunk")));
      if (!breaks || broken > 0) response.write(piece);
      if (breaks) {
        broken++;
        response.destroy();
        return;
      }
    }
    response.end();
  });
  const belljar = client(t, way.url, { apiKey: server.apiKey });
  const session = await belljar.sessions.create();
  const result = await session.exec("i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i+1)); done; cd /tmp; false", { separate: true });
  assert.equal(result.output, Array.from({ length: 300 }, (_, i) => `line ${i}\n`).join(""));
  assert.deepEqual([result.exitCode, result.cwd, result.shell], [1, "/tmp", "kept"]);
  assert.equal(broken, 2);
});

test("runs: what becomes of them", async () => {
  const ok = await belljar.run({ language: "python", code: "import sys; print(sys.stdin.read().upper())", stdin: "hé" });
  assert.deepEqual([ok.stdout, ok.ok, ok.exitCode, ok.phase, ok.reason], ["HÉ\n", true, 0, "completed", ""]);
  const bad = await belljar.run(["sh", "-c", "echo no >&2; exit 4"]);
  assert.deepEqual([bad.ok, bad.exitCode, bad.stderr, bad.reason, bad.phase], [false, 4, "no\n", "nonzero_exit", "failed"]);
  assert.equal(bad.failure, undefined);
  const raised = await belljar.run({ language: "python", code: "def half(n):\n    return n / 0\n\nhalf(1)\n" });
  const failure: RunFailure = raised.failure!;
  assert.deepEqual([failure.language, failure.type, failure.message], ["python", "ZeroDivisionError", "division by zero"]);
  assert.deepEqual(failure.frames.map((f: FailureFrame) => [f.line, f.function, f.skipped]), [[2, "half", undefined], [4, "<module>", undefined]]);
  assert.deepEqual((await belljar.runs.get(raised.id)).failure, failure);
  const late = await belljar.run({ command: ["sleep", "600"], timeout_sec: 0.3 });
  assert.deepEqual([late.phase, late.reason, late.ok], ["timed_out", "execution_timeout", false]);
  await assert.rejects(belljar.run([]), InvalidRequestError);
  await assert.rejects(belljar.run({ command: ["true"], resources: { memory_mb: 1 << 20 } }), PolicyDeniedError);
  await assert.rejects(belljar.run({ command: ["true"], comand: 1 } as never), (e: unknown) => e instanceof InvalidRequestError && e.details["did_you_mean"] === "command");
});

test("runs: start, follow, cancel, wait, list", async () => {
  const started = await belljar.runs.start({ command: ["sh", "-c", "echo ready; sleep 600"], labels: { job: "x" } });
  for await (const frame of belljar.runs.output(started.id)) {
    assert.equal(frame.text, "ready\n");
    break;
  }
  assert.equal((await belljar.runs.get(started.id)).phase, "running");
  assert.ok(["canceling", "finished"].includes((await belljar.runs.cancel(started.id)).status));
  const ended = await within("the end", belljar.runs.wait(started.id));
  assert.deepEqual([ended.phase, ended.reason, ended.stdout], ["killed", "canceled_by_user", "ready\n"]);
  assert.equal((await belljar.runs.cancel(started.id)).status, "finished");
  const page = await belljar.runs.list({ phase: "killed", limit: 1, startedFrom: new Date(Date.now() - 3600_000) });
  assert.equal(page.items![0]!.id, started.id);
  await assert.rejects(belljar.runs.get("01900000-0000-7000-8000-000000000000"), NotFoundError);
});

test("runs: one that is given up is cancelled", async () => {
  const stop = new AbortController();
  const running = belljar.run({ command: ["sleep", "600"], labels: { given: "up" } }, { signal: stop.signal }).catch((e: unknown) => e);
  const mine = async (): Promise<string[]> => ((await belljar.runs.list({ phase: "running" })).items ?? []).filter((r) => r.labels?.["given"]).map((r) => r.id);
  await until("the run", async () => (await mine()).length > 0);
  stop.abort();
  assert.ok((await within("the end", running)) instanceof CanceledError);
  await until("its cancellation", async () => {
    const all = (await belljar.runs.list({ limit: 200 })).items ?? [];
    const given = all.filter((r) => r.labels?.["given"]);
    return given.every((r) => r.phase === "killed") && (await belljar.me()).used.concurrent_runs === 0;
  });
});

test("runs: the same key is the same run", async () => {
  const spec = { command: ["date", "+%N"] };
  const first = await belljar.run(spec, { idempotencyKey: "k1" });
  assert.equal((await belljar.run(spec, { idempotencyKey: "k1" })).stdout, first.stdout);
  await assert.rejects(belljar.run(["true"], { idempotencyKey: "k1" }), IdempotencyConflictError);
  assert.notEqual((await belljar.run(spec)).id, first.id);
});

test("runs: files in, artifacts out", async () => {
  const run = await belljar.run({
    command: ["sh", "-c", "mkdir out; wc -c < in/a.bin > 'out/how many é.txt'; cat in/a.bin > out/copy; : > out/empty"],
    files: { "in/a.bin": Uint8Array.of(0, 1, 255), "in/b.txt": "text" },
    capture_patterns: ["out/**"],
  });
  assert.equal(run.ok, true, run.stderr);
  assert.deepEqual((await belljar.artifacts.list(run.id)).map((a) => [a.path, a.size]), [["out/copy", 3], ["out/empty", 0], ["out/how many é.txt", 2]]);
  assert.equal(text(await belljar.artifacts.read(run.id, "out/how many é.txt")), "3\n");
  assert.deepEqual([...(await belljar.artifacts.read(run.id, "out/copy", { offset: 1, limit: 1 }))], [1]);
  assert.deepEqual([...(await belljar.artifacts.read(run.id, "out/copy", { offset: 1 }))], [1, 255]);
  assert.equal((await belljar.artifacts.read(run.id, "out/copy", { offset: 3 })).length, 0);
  assert.equal((await belljar.artifacts.read(run.id, "out/empty", { limit: 5 })).length, 0);
  await assert.rejects(belljar.artifacts.read(run.id, "out/none"), NotFoundError);
});

test("runs: input while they run", async () => {
  const run = await belljar.runs.start({ command: ["sh", "-c", "while read -r l; do echo \"got $l\"; done; echo over"], interactive: true });
  const input = await belljar.runs.input(run.id);
  const output = belljar.runs.output(run.id);
  await input.write("one\n");
  assert.equal((await within("an answer", output.next())).value?.text, "got one\n");
  await input.write(Buffer.from("zwö\n"));
  assert.equal((await within("an answer", output.next())).value?.text, "got zwö\n");
  await input.close(); // closes only this connection
  const more = await belljar.runs.input(run.id);
  await more.write("three\n");
  await more.end();
  await assert.rejects(more.write("at once"), ConflictError);
  assert.equal(await within("the end of input", more.closed), "client");
  await assert.rejects(more.write("late"), ConflictError);
  await more.end();
  await more.close();
  const ended = await within("the end", belljar.runs.wait(run.id));
  assert.equal(ended.stdout, "got one\ngot zwö\ngot three\nover\n");
  await assert.rejects(belljar.runs.input(run.id), ConflictError);
  const little = await belljar.runs.start({ command: ["cat"], interactive: true, stdin_max_bytes: 3 });
  const full = await belljar.runs.input(little.id);
  await full.write("four");
  await assert.rejects(within("the limit", full.end()), { name: "QuotaExceededError", message: /stdin_max_bytes is 3$/ });
  assert.equal(await full.closed, "stdin_max_bytes");
  await assert.rejects(full.write("more"), { name: "QuotaExceededError", message: /stdin_max_bytes is 3$/, hint: /stdin_max_bytes of the run/ });
  const plain = await belljar.runs.start(["true"]);
  await assert.rejects(belljar.runs.input(plain.id), ConflictError);
  const stop = new AbortController();
  const long = await belljar.runs.start({ command: ["cat"], interactive: true });
  const left = await belljar.runs.input(long.id, { signal: stop.signal });
  stop.abort();
  await assert.rejects(left.write("late\n"), CanceledError);
  await belljar.runs.cancel(long.id);
});

test("runs: input that is given up before they start", async (t) => {
  const { runs } = client(t, (await serve(t, { set: ["max_concurrent_runs=1"] })).url);
  const first = await runs.start(["sleep", "600"]);
  const second = await runs.start({ command: ["cat"], interactive: true });
  const early = await runs.input(second.id);
  await early.write("early");
  const closing = early.close();
  await runs.cancel(first.id);
  await within("the program takes it", closing);
  const late = await runs.input(second.id);
  await late.write(" and late");
  await late.end();
  await late.close();
  assert.equal((await within("the end", runs.wait(second.id))).stdout, "early and late");
});

test("sessions: opened by scope, listed, closed", async () => {
  const scope = { namespace: "workflow", id: "run:1/é" };
  const [one, two] = await Promise.all([belljar.sessions.open({ scope }), belljar.sessions.open({ scope })]);
  assert.equal(one.id, two.id);
  assert.equal([one, two].filter((s) => s.created).length, 1);
  const build = await belljar.sessions.open({ scope: { ...scope, key: "build" }, ttl_sec: 60 });
  const page = await belljar.sessions.list({ keyPrefix: "workflow:run%3A1/é:" });
  assert.deepEqual(page.items!.map((s) => s.session_id).sort(), [one.id, build.id].sort());
  assert.equal((await build.get()).state, "active");
  assert.equal((await belljar.sessions.get(build.id)).id, build.id);
  await assert.rejects(belljar.sessions.create({ scope }), ConflictError);
  assert.deepEqual((await belljar.sessions.closeAll("workflow:run%3A1/é:")).sort(), [one.id, build.id].sort());
  const error = await one.run(["true"]).catch((e: unknown) => e);
  assert.ok(error instanceof SessionExpiredError && error.details["state"] === "closed");
});

test("files: all operations", async (t) => {
  const { files, ...session } = await keep(t).then((s) => ({ files: s.files, run: s.run.bind(s) }));
  const entry = await files.write("src/main.py", "print('hi')\n", { mode: 0o755 });
  assert.deepEqual([entry.path, entry.size, entry.mode], ["src/main.py", 12, "0755"]);
  await assert.rejects(files.write("src/main.py", "x"), ConflictError);
  await files.write("src/main.py", new Blob(["print('ho')\n"]), { overwrite: true });
  assert.equal(await files.text("src/main.py"), "print('ho')\n");
  const part = await files.part("src/main.py");
  assert.deepEqual([new TextDecoder().decode(part.content), part.size, part.nextOffset], ["print('ho')\n", 12, undefined]);
  const written = await files.write("src/main.py", "print('hu')\n", { ifMatch: part.etag });
  assert.equal(written.mode, "0755");
  await assert.rejects(files.write("src/main.py", "lost", { ifMatch: part.etag, overwrite: true }), PreconditionFailedError);
  assert.equal((await files.part("src/main.py", { offset: 7, maxBytes: 2 })).nextOffset, 9);
  await files.write("src/main.py", "print('ho')\n", { ifMatch: written.etag });
  async function* pieces(): AsyncGenerator<Uint8Array> {
    for (let i = 0; i < 100; i++) yield Buffer.alloc(10_000, i);
  }
  assert.equal((await files.write("streamed", pieces())).size, 1_000_000);
  assert.equal((await files.write("buffer", new Uint8Array([1, 2, 3]).buffer)).size, 3);
  assert.equal((await files.write("web", new Response("abc").body!)).size, 3);
  let size = 0;
  for await (const piece of await files.open("streamed")) size += piece.length;
  assert.equal(size, 1_000_000);
  assert.deepEqual([...(await files.read("streamed", { offset: 9_999, limit: 2 }))], [0, 1]);
  assert.equal((await files.read("streamed", { offset: 2_000_000 })).length, 0);
  assert.equal(await new Response((await files.open("web")).readable() as BodyInit).text(), "abc");
  await files.write("empty", "");
  assert.equal((await files.read("empty", { limit: 10 })).length, 0);

  await files.writeAll({ "a/1": "one", "a/2": Uint8Array.of(255) });
  await assert.rejects(files.writeAll([{ path: "a/3", content: "x" }, { path: "a/1", content: "y" }]), ConflictError);
  assert.equal(await files.exists("a/3"), false); // all or none
  assert.equal(await files.exists("a/1"), true);
  assert.deepEqual((await files.list("a")).entries!.map((e) => [e.path, e.type]), [["a/1", "file"], ["a/2", "file"]]);
  assert.equal((await files.list(".", { recursive: true, limit: 2 })).truncated, true);
  await files.mkdir("deep/er");
  await files.rename("a/1", "deep/er/one");
  assert.equal((await files.stat("deep/er/one")).size, 3);
  const found = await files.search({ content: "HO", ignore_case: true });
  assert.deepEqual(found.matches!.map((m) => [m.path, m.line]), [["src/main.py", 1]]);
  await assert.rejects(files.delete("a"), ConflictError);
  await files.delete("a", { recursive: true });
  await assert.rejects(files.stat("a"), NotFoundError);
  await assert.rejects(files.read("../etc/passwd"), PathEscapesError);
  assert.ok((await files.space()).bytes > 1_000_000);

  const given = { "x/ü 1.txt": "eins", "x/2.bin": Uint8Array.of(0, 9), 'o/";!\'()*': "odd", "o/%22": "%" };
  const uploaded = await files.upload(given, { dir: "up" });
  assert.deepEqual([uploaded.file_count, uploaded.bytes_received], [4, 10]);
  assert.equal(await files.text("up/x/ü 1.txt"), "eins");
  assert.deepEqual((await files.list("up/o")).entries.map((e) => e.path.slice("up/o/".length)), ['";!\'()*', "%22"]);
  await files.delete("up/o", { recursive: true });
  await assert.rejects(files.upload({ "two\nlines": "" }), InvalidRequestError);
  const gone = new Error("the disk is gone");
  await assert.rejects(files.write("broken", new ReadableStream({ start: (controller) => controller.error(gone) })), (error) => error === gone);
  assert.equal(await files.exists("broken"), false);
  const tar = await (await files.archive("up", "tar.gz")).bytes();
  await files.unpack(tar, "tar.gz", { dir: "copy" });
  const listed = await session.run(["find", "copy", "-type", "f"]);
  assert.equal(listed.stdout.split("\n").filter(Boolean).length, 2, listed.stdout);
});

async function collect(terminal: AsyncIterable<TerminalEvent>, done: (all: string) => boolean): Promise<{ all: string; last: TerminalEvent | undefined }> {
  let all = "";
  let last: TerminalEvent | undefined;
  for await (const event of terminal) {
    last = event;
    if (event.kind === "output" || event.kind === "history") all += event.text;
    if (done(all)) break;
  }
  return { all, last };
}

test("ports are listed, and previews are the operator's to allow", async (t) => {
  const session = await keep(t);
  const code = "import socket; s = socket.create_server(('127.0.0.1', 3000)); print('ready', flush=True); s.accept()";
  const run = await session.start(["python3", "-c", code]);
  for await (const frame of belljar.runs.frames(run.run_id)) if (frame.type === "stdout") break;
  assert.deepEqual((await session.ports()).map((p) => [p.port, p.address, p.program]), [[3000, "127.0.0.1", "python3"]]);
  assert.deepEqual(await session.previews(), []);
  await assert.rejects(session.preview(3000), (e: PolicyDeniedError) => e.hint?.includes("SANDBOX_PREVIEW_DOMAIN") ?? false);
  await assert.rejects(session.revokePreview("x"), NotFoundError);
});

test("terminals: typed, resized, left, come back to, ended", async (t) => {
  const session = await keep(t);
  const terminal = await session.terminal({ cols: 100, rows: 30, command: ["sh"], name: "mine" });
  assert.deepEqual([terminal.state.cols, terminal.state.rows, terminal.state.name], [100, 30, "mine"]);
  await terminal.write("PS1=; stty -echo; echo si''ze; stty size\n");
  await within("the size", collect(terminal, (all) => all.includes("size\r\n30 100")));
  await terminal.resize(80, 24);
  await terminal.write("stty size; printf 'gr\\303\\274n 🙂\\n'\n");
  await within("the new size", collect(terminal, (all) => all.includes("24 80") && all.includes("grün 🙂")));
  assert.deepEqual((await session.terminals()).map((x) => x.terminal_id), [terminal.id]);
  await terminal.close();
  await terminal.close();

  const back = await belljar.terminals.attach({ token: terminal.token });
  assert.equal(back.id, terminal.id);
  const first = await within("the history", back.next());
  assert.ok(first?.kind === "history" && first.text.includes("grün 🙂"));
  const other = await belljar.terminals.attach({ id: terminal.id }, { history: false });
  const { last } = await within("the end", collect(back, () => false));
  assert.deepEqual(last, { kind: "replaced" });
  await other.write("exit 3\n");
  const ended = await within("the exit", collect(other, () => false));
  assert.deepEqual(ended.last, { kind: "exit", exitCode: 3 });
  assert.equal(other.exitCode, 3);
  await assert.rejects(other.write("x"), ConflictError);

  await belljar.terminals.end(terminal.id);
  await assert.rejects(belljar.terminals.attach({ id: terminal.id }), NotFoundError);
  await assert.rejects(belljar.terminals.attach({ token: "forged" }), NotFoundError);
  await assert.rejects(session.terminal({ cols: 0 }), InvalidRequestError);
  await assert.rejects(belljar.terminals.open("01900000-0000-7000-8000-000000000000"), NotFoundError);
});

test("terminals: bytes, and a paste that is long", async (t) => {
  const session = await keep(t);
  const terminal = await session.terminal({ command: ["sh", "-c", "stty raw -echo; echo go; head -c 100000 | sha256sum; printf '\\377\\303'; sleep 0.3; printf '\\274'"] });
  atEnd(t, () => terminal.close());
  await within("the beginning", collect(terminal, (all) => all.includes("go")));
  await terminal.write(Buffer.alloc(100_000, "é"));
  const { all } = await within("the end", collect(terminal, () => false));
  const want = (await import("node:crypto")).createHash("sha256").update(Buffer.alloc(100_000, "é")).digest("hex");
  assert.ok(all.includes(want));
  assert.ok(all.endsWith("\uFFFDü"), JSON.stringify(all.slice(-10)));
});

test("terminals: a broken connection is reported, and the terminal reconnects", async (t) => {
  const session = await keep(t);
  const terminal = await session.terminal({ command: ["cat"] });
  await terminal.write("before\n");
  await within("the echo", collect(terminal, (all) => all.includes("before\r\nbefore")));
  const waiting = terminal.next().catch((e: unknown) => e);
  // The test cannot cut the private socket; attaching another client has the same effect.
  await belljar.terminals.attach({ id: terminal.id }).then((other) => other.close());
  assert.deepEqual(await within("the end", waiting), { kind: "replaced" });
  const again = await terminal.reattach();
  const history = await within("the history", again.next());
  assert.ok(history?.kind === "history" && history.text.includes("before"));
  await again.close();
});

test("the node, images, tickets and anything else", async (t) => {
  assert.equal((await belljar.me()).role, "admin");
  assert.ok((await belljar.runtimes()).runtimes!.length > 0);
  const [host] = await belljar.images.list();
  assert.equal(host!.ref, "host");
  assert.equal((await belljar.images.get("host")).source, "host");
  await assert.rejects(belljar.images.pull("no-such.invalid/image:1"), { code: "image_unavailable" });
  assert.ok(await belljar.request<object>("GET", "/api/v1/sandbox/admin/usage", { query: { limit: 1 } }));

  const server = await serve(t);
  const far = client(t, server.url, { apiKey: server.apiKey });
  const run = await far.run(["echo", "seen"]);
  const path = `/api/v1/sandbox/runs/${run.id}/logs`;
  const url = await far.ticketUrl(path, { stream: "stdout" });
  assert.equal(await (await fetch(url)).text(), "seen\n");
  assert.equal((await fetch(url)).status, 401); // the ticket is valid once
});

test("sign-ins", async (t) => {
  const server = await serve(t);
  const owner = client(t, server.url, { apiKey: server.apiKey });
  const nobody = client(t, server.url, { apiKey: "wrong" });
  const link = await owner.loginLink();
  assert.equal(link.url, `${server.url}/webui/#k=${link.code}`);
  const login = await nobody.login({ code: link.code });
  assert.deepEqual([login.user_id, login.role], ["operator", "admin"]);
  await assert.rejects(nobody.login({ code: link.code }), UnauthorizedError); // the code is valid once
  const page = client(t, server.url, { apiKey: login.token });
  assert.equal((await page.me()).user_id, "operator");
  await assert.rejects(page.loginLink(), ForbiddenError);
  await page.logout();
  await assert.rejects(page.me(), UnauthorizedError);
  assert.ok((await nobody.login({ key: server.apiKey })).token.startsWith("u1."));
});

test("links to downloads", async (t) => {
  const server = await serve(t);
  const far = client(t, server.url, { apiKey: server.apiKey });
  const session = await far.sessions.create();
  atEnd(t, () => session.destroy());
  await session.write("a b/é%.txt", "in the workspace");
  const run = await session.run({ command: ["sh", "-c", "echo kept > 'x y.txt'"], capture_patterns: ["*.txt"] });
  for (const [link, want] of [
    [await session.files.url("a b/é%.txt"), /^in the workspace$/],
    [await session.files.archiveUrl("a b"), /in the workspace/],
    [await far.artifacts.url(run.id, "x y.txt"), /^kept\n$/],
  ] as const) {
    const answer = await fetch(link);
    assert.match(await answer.text(), want);
    assert.match(answer.headers.get("content-disposition")!, /^attachment/);
    assert.equal((await fetch(link)).status, 401);
  }
});

test("what sandboxes use", async (t) => {
  const session = await keep(t);
  const run = await session.start(["sh", "-c", "while :; do :; done"]);
  let [busy, idle] = [0, 0];
  for await (const sample of belljar.runs.usage(run.id)) {
    assert.equal(sample.scope, "session");
    assert.ok(Date.parse(sample.at) > 0);
    if (!sample.cpu_percent) continue;
    busy++;
    await belljar.runs.cancel(run.id);
  }
  for await (const sample of session.usage()) {
    assert.ok(sample.memory_bytes! >= 0 && sample.pids! >= 0); // no program is running any longer
    idle++;
    await session.destroy();
  }
  assert.ok(busy > 0 && idle > 0, `${busy} busy samples, ${idle} idle ones`);
  await assert.rejects(belljar.runs.usage("01900000-0000-7000-8000-000000000000").next(), NotFoundError);
});
