// Checks belljar lsp with the official client library. It prints one line of JSON for each check.
//
//   node check.mjs BELLJAR [ARGS…]      starts BELLJAR lsp ARGS…
import rpc from "vscode-languageserver-protocol/node";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [program, ...args] = process.argv.slice(2);
const withServer = args.includes("--server");
const root = realpathSync(mkdtempSync(join(tmpdir(), "belljar-lsp-")));
const home = join(root, "home");
const files = {
  "main.py": 'import sys\n\ndef load(n):\n    text = "😀" if 1 / n else ""\n    return text\n\nif __name__ == "__main__":\n    print("hello")\n    load(0)\n',
  "crlf.py": "# é\r\n\r\nvalue = {}\r\nprint(value['missing'])\r\n",
  "lib/deep.py": 'import json\nif __name__ == "__main__":\n    json.loads("{")\n',
  "test_one.py": "import unittest\n\nclass TestOne(unittest.TestCase):\n    def test_right(self):\n        pass\n\n    def test_wrong(self):\n        self.assertEqual(1, 2)\n\ndef test_plain():\n    assert [] == [1]\n",
  "sum.test.mjs": "import test from 'node:test';\nimport assert from 'node:assert/strict';\ntest('adds', () => {\n  assert.equal(1 + 1, 3);\n});\n",
  "bad.c": "#include <stdio.h>\nint main(void) {\n  printf(\"%d\\n\", missing);\n}\n",
  "app.js": "#!/usr/bin/env node\nfunction go() {\n  throw new TypeError('no 😀');\n}\ngo();\n",
  "ask.sh": "#!/bin/sh\necho up\nread a\necho got $a\n",
  "loop.sh": "#!/bin/sh\necho started\nwhile :; do sleep 1; done\n",
  ".gitignore": "ignored/\n*.log\n",
  "ignored/x": "x",
  "big.log": "x",
};
const work = join(root, "work"), other = join(root, "other one");
for (const [name, text] of Object.entries(files)) {
  mkdirSync(join(work, name, ".."), { recursive: true });
  writeFileSync(join(work, name), text);
}
mkdirSync(other);
mkdirSync(home);
writeFileSync(join(other, "two.py"), "import os\nprint([n for n in os.listdir() if n[0] != '.'])\n");
symlinkSync("/etc/passwd", join(work, "out.txt"));
const uri = (name, dir = work) => pathToFileURL(join(dir, name)).href;

/** An editor: its received messages, and a way to wait for one. */
class Editor {
  static async start(initializationOptions, capabilities = {}, where = args) {
    const e = new Editor();
    e.process = spawn(program, ["lsp", "--stdio", ...where], { stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, HOME: home, XDG_CONFIG_HOME: "" } });
    e.ended = new Promise((done) => e.process.on("exit", (code) => done(code)));
    e.link = rpc.createProtocolConnection(new rpc.StreamMessageReader(e.process.stdout), new rpc.StreamMessageWriter(e.process.stdin));
    e.got = [];
    e.waiting = [];
    for (const method of ["belljar/run", "belljar/log", "belljar/logTruncated", "textDocument/publishDiagnostics", "window/logMessage", "window/showMessage", "$/progress"]) {
      e.link.onNotification(method, (params) => e.take(method, params));
    }
    for (const method of ["workspace/codeLens/refresh", "window/workDoneProgress/create", "window/showDocument", "window/showMessageRequest"]) {
      e.link.onRequest(method, (params) => (e.take(method, params), method === "window/showDocument" ? { success: true } : null));
    }
    e.link.listen();
    const begin = performance.now();
    e.result = await e.link.sendRequest(rpc.InitializeRequest.type, {
      processId: process.pid, rootUri: null, initializationOptions, workspaceFolders: [{ uri: uri(""), name: "work" }, { uri: pathToFileURL(other).href, name: "other" }],
      capabilities: {
        general: { positionEncodings: ["utf-16"] }, window: { workDoneProgress: true, showDocument: { support: true } },
        textDocument: { publishDiagnostics: { relatedInformation: true, codeDescriptionSupport: true, versionSupport: true } }, ...capabilities,
      },
    });
    e.took = performance.now() - begin;
    await e.link.sendNotification(rpc.InitializedNotification.type, {});
    return e;
  }
  take(method, params) {
    const i = this.waiting.findIndex((w) => w.method === method && w.is(params));
    if (i >= 0) this.waiting.splice(i, 1)[0].done(params);
    else this.got.push({ method, params });
  }
  /** Returns the first message of a method that matches, now or later. */
  next(method, is = () => true) {
    const i = this.got.findIndex((m) => m.method === method && is(m.params));
    if (i >= 0) return Promise.resolve(this.got.splice(i, 1)[0].params);
    return new Promise((done, fail) => {
      const late = setTimeout(() => fail(new Error(`no ${method} came`)), 240_000);
      this.waiting.push({ method, is, done: (params) => (clearTimeout(late), done(params)) });
    });
  }
  /** Returns the next matching diagnostics of a file. */
  async diagnostics(name, is = () => true) {
    return (await this.next("textDocument/publishDiagnostics", (p) => p.uri === uri(name) && is(p.diagnostics))).diagnostics;
  }
  command(command, argument, token) {
    return this.link.sendRequest(rpc.ExecuteCommandRequest.type, { command, arguments: argument === undefined ? [] : [argument] }, token);
  }
  run(argument) {
    return this.command("tldw.sandbox.run", { wait: true, ...argument });
  }
  printed(id, stream) {
    return this.got.filter((m) => m.method === "belljar/log" && m.params.run_id === id && m.params.stream === stream).map((m) => m.params.data).join("");
  }
  lenses(name) {
    return this.link.sendRequest(rpc.CodeLensRequest.type, { textDocument: { uri: uri(name) } });
  }
  open(name) {
    return this.link.sendNotification(rpc.DidOpenTextDocumentNotification.type, { textDocument: { uri: uri(name), languageId: "x", version: 1, text: files[name] } });
  }
  change(name, version, range, text) {
    return this.link.sendNotification(rpc.DidChangeTextDocumentNotification.type, { textDocument: { uri: uri(name), version }, contentChanges: [{ range, text }] });
  }
  async end() {
    await this.link.sendRequest(rpc.ShutdownRequest.type);
    await this.link.sendNotification(rpc.ExitNotification.type);
    assert.equal(await this.ended, 0);
    this.link.dispose();
  }
}

const place = (line, from, to) => ({ start: { line, character: from }, end: { line, character: to } });

/** resident returns one part of the memory of an editor's server, in MiB. */
const resident = (e, part) => readFileSync(`/proc/${e.process.pid}/status`, "utf8").match(new RegExp(`${part}:\\s+(\\d+)`))[1] / 1024;

const checks = {
  // edit, lens, run, log, diagnostic on the right line, fix, cleared, artifacts
  async scenario() {
    const e = await Editor.start({ notifications: true });
    assert.equal(e.result.serverInfo.name, "belljar");
    await e.open("main.py");
    const [lens] = await e.lenses("main.py");
    assert.deepEqual(lens.range, place(6, 0, 25));
    const idle = resident(e, "RssAnon");
    assert.ok(idle <= 8, `the server has ${idle} MiB of its own before it is used`);
    assert.equal(lens.command.title, "▶ Run in Sandbox");
    const started = await e.command(lens.command.command, lens.command.arguments[0]);
    assert.match(started.run_id, /^[0-9a-f-]{36}$/);
    assert.equal(started.web_url === undefined, !withServer);
    const [found] = await e.diagnostics("main.py");
    assert.deepEqual(found.range, place(3, 19, 24)); // 1 / n, after an emoji of two units
    assert.equal(found.message, "ZeroDivisionError: division by zero (exit status 1)");
    assert.equal(found.relatedInformation[0].location.range.start.line, 8);
    if (withServer) assert.equal(found.codeDescription.href, started.web_url);
    const log = await e.next("belljar/log", (p) => p.stream === "stdout");
    assert.deepEqual([log.data, log.run_id], ["hello\n", started.run_id]);
    await e.next("belljar/run", (p) => p.run_id === started.run_id && p.phase === "failed" && p.exit_code === 1);
    const again = await e.lenses("main.py");
    assert.equal(again[0].command.title, "✗ exit 1 · Run again");
    await e.change("main.py", 2, place(8, 4, 11), "open('plot.txt', 'w').write(load(1))");
    await e.change("main.py", 3, place(3, 0, 4), "    ");
    assert.deepEqual(await e.diagnostics("main.py"), []);
    const fixed = await e.run({ uri: uri("main.py"), capture_patterns: ["*.txt"] });
    assert.deepEqual([fixed.phase, fixed.exit_code, fixed.session_id], ["completed", 0, started.session_id]);
    const left = await e.command("tldw.sandbox.openArtifacts", { run_id: fixed.run_id });
    assert.deepEqual(left.items.map((i) => [i.path, i.size, i.download_url === undefined]), [["plot.txt", 4, !withServer]]);
    const to = join(root, "plot");
    await e.command("belljar.sandbox.fetchArtifact", { run_id: fixed.run_id, path: "plot.txt", to: pathToFileURL(to).href });
    assert.equal(readFileSync(to, "utf8"), "😀");
    // The sandbox's contents: no ignored file, no link that leads out.
    const list = await e.run({ folder: uri(""), command: ["sh", "-c", "ls -A; ls -A /workspace/lib"] });
    const names = e.printed(list.run_id, "stdout").split("\n");
    for (const name of ["main.py", "plot.txt", "deep.py", ".gitignore"]) assert.ok(names.includes(name), name);
    for (const name of ["ignored", "big.log", "out.txt"]) assert.ok(!names.includes(name), name);
    await e.end();
  },

  async languages() {
    const e = await Editor.start({ notifications: true });
    assert.equal((await e.run({ uri: uri("crlf.py") })).exit_code, 1);
    const [crlf] = await e.diagnostics("crlf.py");
    assert.deepEqual([crlf.range.start.line, crlf.range.end, crlf.code], [3, { line: 3, character: 22 }, "KeyError"]);
    // A failure in the standard library leads to the frame in the folder.
    await e.run({ uri: uri("lib/deep.py") });
    const [deep] = await e.diagnostics("lib/deep.py");
    assert.equal(deep.range.start.line, 2);
    for (const [name, line] of [["TestOne::test_wrong", 7], ["test_plain", 10]]) {
      const one = await e.run({ uri: uri("test_one.py"), test: { name } });
      assert.equal(one.exit_code, 1, e.printed(one.run_id, "stderr"));
      await e.diagnostics("test_one.py", (list) => list.some((d) => d.range.start.line === line));
    }
    const [lens] = await e.lenses("sum.test.mjs");
    await e.run(lens.command.arguments[0]);
    const [sum] = await e.diagnostics("sum.test.mjs");
    assert.deepEqual([sum.range.start, sum.code], [{ line: 3, character: 9 }, "AssertionError"]);
    const two = await e.run({ uri: uri("two.py", other) });
    assert.equal(e.printed(two.run_id, "stdout"), "['two.py']\n");
    await e.end();
  },

  async compiled() {
    const e = await Editor.start({ notifications: true });
    await e.run({ uri: uri("bad.c") });
    const [c] = await e.diagnostics("bad.c");
    assert.deepEqual(c.range.start, { line: 2, character: 17 });
    assert.match(c.message, /missing.*undeclared/);
    await e.run({ uri: uri("app.js") });
    const [js] = await e.diagnostics("app.js");
    assert.deepEqual([js.range.start, js.code], [{ line: 2, character: 8 }, "TypeError"]);
    await e.end();
  },

  async cancel() {
    const e = await Editor.start({ notifications: true });
    const stop = new rpc.CancellationTokenSource();
    const running = e.command("tldw.sandbox.run", { uri: uri("loop.sh"), wait: true }, stop.token);
    const { run_id } = await e.next("belljar/log", (p) => p.data.includes("started"));
    stop.cancel();
    await assert.rejects(running, (err) => err.code === -32800);
    await e.next("belljar/run", (p) => p.run_id === run_id && p.phase === "killed" && p.reason_code === "canceled_by_user");
    const second = await e.command("tldw.sandbox.run", { uri: uri("loop.sh") });
    await e.next("belljar/log", (p) => p.run_id === second.run_id);
    await e.command("belljar.sandbox.cancel", {});
    await e.next("belljar/run", (p) => p.run_id === second.run_id && p.phase === "killed");
    await e.end();
  },

  // A server that disappears during a run: the editor notices at once. The output continues when the server is back.
  // The editor stops following a run that was cancelled meanwhile.
  async serverAway() {
    const server = new URL(args[args.indexOf("--server") + 1]), open = new Set();
    const relay = createServer((near) => {
      const far = connect(server.port, server.hostname);
      for (const socket of [near, far]) {
        open.add(socket);
        socket.on("error", () => {}).on("close", () => [near, far].forEach((s) => (open.delete(s), s.destroy())));
      }
      near.pipe(far).pipe(near);
    });
    const listen = (port) => new Promise((done) => relay.listen(port, "127.0.0.1", done));
    const leave = () => new Promise((done) => (relay.close(done), open.forEach((socket) => socket.destroy())));
    await listen(0);
    const { port } = relay.address();
    const e = await Editor.start({ notifications: true }, {}, ["--server", `http://127.0.0.1:${port}`]);
    const begin = async () => {
      const { run_id } = await e.command("tldw.sandbox.run", { uri: uri("ask.sh"), interactive: true });
      await e.next("belljar/log", (p) => p.run_id === run_id);
      await leave();
      const note = await e.next("belljar/run", (p) => p.run_id === run_id && p.message);
      assert.match(note.message, /127\.0\.0\.1:\d+ does not answer/);
      assert.deepEqual([note.phase, note.lost], ["running", undefined]);
      assert.match((await e.next("window/showMessage")).message, /does not answer/);
      return run_id;
    };
    const first = await begin();
    await listen(port);
    await e.command("belljar.sandbox.input", { run_id: first, data: "it\n" });
    await e.next("belljar/log", (p) => p.run_id === first && p.data === "got it\n");
    await e.next("belljar/run", (p) => p.run_id === first && p.phase === "completed");
    const second = await begin(), cancelled = e.command("belljar.sandbox.cancel", {});
    await e.next("belljar/run", (p) => p.run_id === second && p.lost);
    await listen(port);
    await cancelled;
    assert.equal((await e.run({ folder: uri(""), command: ["true"] })).exit_code, 0);
    await e.end();
    await leave();
  },

  // The promises of docs/specification.md, as rows of name, measured value, and budget.
  async figures() {
    const middle = (list, at = 0.5) => list.sort((a, b) => a - b)[Math.floor(list.length * at)];
    const timed = async (does) => {
      const begin = performance.now();
      await does();
      return performance.now() - begin;
    };
    const times = async (n, does) => {
      const list = [];
      for (let i = 0; i < n; i++) list.push(await timed(does));
      return middle(list);
    };
    const starts = [];
    for (let n = 0; n < 5; n++) {
      const e = await Editor.start({ notifications: true });
      starts.push(e.took);
      await e.end();
    }
    const rows = [["initialize, ms", middle(starts), 50]];
    const e = await Editor.start({ notifications: true });
    files["long.test.js"] = "import test from 'node:test';\n" + ("test('a name', () => { const x = /a\"b/; return 'y' + `z`; }); // text\n" + "  work('a', /b/); // text\n".repeat(24)).repeat(200);
    await e.open("long.test.js");
    assert.equal((await e.lenses("long.test.js")).length, 200);
    rows.push(["lenses of a text of 5,000 lines, ms", await times(5, () => e.lenses("long.test.js")), 20]);
    const idle = resident(e, "RssAnon") + resident(e, "RssFile"); // without the program itself, which may be in memory as large pages
    rows.push(["memory of the idle server, before its first run, MiB", idle, 25]);

    writeFileSync(join(work, "up.sh"), "echo up\n");
    const click = async () => {
      const { run_id } = await e.command("tldw.sandbox.run", { uri: uri("up.sh") });
      await e.next("belljar/log", (p) => p.run_id === run_id);
      return run_id;
    };
    const ended = (run_id) => e.next("belljar/run", (p) => p.run_id === run_id && p.exit_code !== undefined);
    const warm = async () => {
      await ended(await click()); // this sends the changed files
      const list = [];
      for (let n = 0; n < 9; n++) {
        let id;
        list.push(await timed(async () => { id = await click(); }));
        await ended(id);
      }
      return middle(list);
    };
    const few = await warm();
    for (let n = 0; n < 2000; n++) {
      const name = join(work, "lib", `m${n}.py`);
      writeFileSync(name, `x = ${n}\n`);
      utimesSync(name, 1e9, 1e9); // not recently changed: such a file may change again
    }
    const many = await warm();
    rows.push(["a click to the first output of its program, ms", few, 100], ["the same with 2,000 more files that have not changed, ms more", Math.max(many - few, 0), 150]);

    const program = 'import time\nprint("up", flush=True)\nfor n in range(20):\n    time.sleep(0.06)\n    print(time.time() * 1000, flush=True)\n1 / 0\n';
    writeFileSync(join(work, "late.py"), program);
    const { run_id } = await e.command("tldw.sandbox.run", { uri: uri("late.py") });
    const delays = [];
    let text = "", last = 0, lines = 0;
    while (lines <= 20) {
      text += (await e.next("belljar/log", (p) => p.run_id === run_id && p.stream === "stdout")).data;
      const now = performance.timeOrigin + performance.now(), whole = text.split("\n");
      text = whole.pop();
      for (const line of whole) {
        if (lines++ > 0) delays.push(now - (last = parseFloat(line)));
      }
    }
    await e.diagnostics("late.py");
    rows.push(["output to belljar/log, p95, ms", middle(delays, 0.95), 20], ["a program's last output to its marks, ms", performance.timeOrigin + performance.now() - last, 100]);
    await e.end();
    return JSON.stringify(rows);
  },

  // An editor without Belljar support gets all of it through the protocol alone.
  async plainEditor() {
    const e = await Editor.start(undefined);
    assert.deepEqual(e.result.capabilities.executeCommandProvider.commands.length, 7);
    await e.command("tldw.sandbox.run", { uri: uri("main.py") });
    await e.next("$/progress", (p) => p.value.kind === "begin" && /main.py/.test(p.value.title));
    await e.next("window/logMessage", (p) => p.message === "hello");
    const end = await e.next("window/showMessageRequest");
    assert.match(end.message, /main.py exited with status 1/);
    assert.deepEqual(end.actions.map((a) => a.title), withServer ? ["Run again", "Open in Belljar"] : ["Run again"]);
    await e.next("$/progress", (p) => p.value.kind === "end");
    await e.end();
  },
};

// Checks that do not depend on the sandboxes' location run once, and the promises separately.
const once = ["languages", "compiled", "cancel"];
for (const [name, check] of Object.entries(checks)) {
  if (process.env.FIGURES ? name !== "figures" : name === "figures" || (withServer ? once.includes(name) : name === "serverAway")) continue;
  let why = "", output = "";
  try {
    output = await check();
  } catch (err) {
    why = String(err?.stack ?? err);
  }
  console.log(JSON.stringify({ name, ok: why === "", why, output }));
}
rmSync(root, { recursive: true });
process.exit(0);
