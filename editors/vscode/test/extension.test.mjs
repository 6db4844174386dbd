// Tests the extension's bundle with the real language client and the real belljar lsp, in a fake editor (vscode.cjs). BELLJAR_BIN
// is the program.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createRequire, Module } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { after, before } from "node:test";

const require = createRequire(import.meta.url);
const vscode = require("./vscode.cjs");
const { editor } = vscode;
const load = Module._load;
Module._load = function (name, ...rest) {
  return name === "vscode" ? vscode : load.call(this, name, ...rest);
};

const manifest = require("../package.json");
const root = realpathSync(mkdtempSync(join(tmpdir(), "belljar-code-")));
const folder = join(root, "work");
const program = process.env.BELLJAR_BIN ?? join(import.meta.dirname ?? ".", "../../../bin/belljar");
const failing = 'def load(n):\n    return 1 / n\n\nif __name__ == "__main__":\n    print("\\x1b[32mhello\\x1b[0m")\n    load(0)\n';
const context = {
  subscriptions: [], extensionMode: 3,
  secrets: { get: async (name) => editor.secrets.get(name), store: async (name, value) => void editor.secrets.set(name, value), delete: async (name) => void editor.secrets.delete(name) },
  workspaceState: { get: (name, otherwise) => editor.state.get(name) ?? otherwise, update: async (name, value) => void editor.state.set(name, value) },
};
let extension, main;

before(async () => {
  mkdirSync(folder);
  process.env.XDG_CONFIG_HOME = join(root, "config");
  process.env.SANDBOX_IMAGE_PULL = "never";
  writeFileSync(join(folder, "main.py"), failing);
  writeFileSync(join(folder, "ask.sh"), "#!/bin/sh\nread name\necho \"hello $name\"\n");
  vscode.workspace.workspaceFolders.push({ uri: vscode.Uri.file(folder), name: "work", index: 0 });
  editor.settings["tldw.sandbox.path"] = program;
  // A folder's own settings must not choose the program, the server or the image.
  Object.assign(editor.folderSettings, { "tldw.sandbox.path": "/bin/false", "tldw.sandbox.serverUrl": "http://127.0.0.1:1", "tldw.sandbox.image": "evil", "tldw.sandbox.runtime": "evil" });
  extension = require("../dist/extension.js");
  extension.activate(context);
  main = editor.open(join(folder, "main.py"), "python", failing);
});

after(async () => {
  await extension.deactivate();
  for (const d of context.subscriptions) d.dispose();
  rmSync(root, { recursive: true });
});

const lenses = async (document) => {
  for (const provider of editor.lensProviders) {
    const list = await provider.provideCodeLenses(document, new vscode.CancellationTokenSource().token);
    if (list?.length) return list;
  }
  return [];
};
const shown = (document) => editor.diagnostics.get(document.uri.toString()) ?? [];
const runs = () => editor.trees.get("belljar.runs");
const ended = (n) => editor.until(`${n} runs have ended`, () => {
  const list = runs().getChildren();
  return list.length === n && !["queued", "starting", "running"].includes(list[0].phase) && list[0];
});

test("a lens runs the file, and the failure is marked until it is fixed", async () => {
  await editor.until("the server is there", () => editor.lensProviders.length);
  assert.deepEqual(editor.errors, []);
  const [lens] = await lenses(main);
  assert.equal(lens.command.title, "▶ Run in Sandbox");
  assert.equal(lens.range.start.line, 3);
  await vscode.commands.executeCommand(lens.command.command, ...lens.command.arguments);
  const [found] = await editor.until("a diagnostic is shown", () => shown(main).length && shown(main));
  assert.deepEqual([found.range.start.line, found.range.start.character, found.range.end.character], [1, 11, 16]);
  assert.match(found.message, /^ZeroDivisionError: division by zero/);
  const run = await ended(1);
  assert.deepEqual([run.phase, run.exit_code], ["failed", 1]);
  assert.equal(runs().getTreeItem(run).contextValue, "run.ended");
  assert.match(editor.status.text, /main\.py/);
  await editor.until("the terminal has all", () => /exit status 1/.test(editor.terminals[0].text));
  assert.match(editor.terminals[0].text, /\x1b\[32mhello\x1b\[0m\r\n/);
  await editor.edit(main, 5, 4, 11, "open('out.txt', 'w').write(str(load(2)))");
  await editor.edit(main, 1, 11, 16, "n / 4");
  await editor.until("the mark is gone", () => shown(main).length === 0);
  editor.settings["tldw.sandbox.capturePatterns"] = ["*.txt"];
  await vscode.commands.executeCommand("tldw.sandbox.run", { uri: main.uri.toString() });
  assert.equal((await ended(2)).exit_code, 0);
});

test("artifacts are listed when they are looked at, and opened", async () => {
  const view = editor.trees.get("belljar.artifacts");
  const [artifact] = await view.getChildren();
  assert.deepEqual([artifact.path, artifact.size], ["out.txt", 3]);
  const item = view.getTreeItem(artifact);
  const link = view.getTreeItem({ path: "link", size: 0, type: "", link_target: "out.txt" });
  assert.deepEqual([link.description, link.command], ["link to out.txt", undefined]);
  await vscode.commands.executeCommand(item.command.command, ...item.command.arguments);
  const [, uri] = editor.executed.find(([name]) => name === "vscode.open");
  assert.equal(readFileSync(uri.fsPath, "utf8"), "0.5");
  rmSync(join(uri.fsPath, "../.."), { recursive: true });
});

test("the palette asks for a command, and remembers it", async () => {
  editor.answers["Run in Sandbox"] = `sh -c 'echo "two words"; exit 3'`;
  await vscode.commands.executeCommand("tldw.sandbox.run");
  assert.equal((await ended(3)).exit_code, 3);
  assert.match(editor.terminals[2].text, /two words/);
  assert.equal(editor.state.get("belljar.lastCommand"), editor.answers["Run in Sandbox"]);
  editor.answers["Run in Sandbox"] = `["echo", 1]`;
  await vscode.commands.executeCommand("tldw.sandbox.run");
  assert.match(editor.errors.pop(), /a command is a list of texts/);
  await vscode.commands.executeCommand("belljar.rerun");
  assert.equal((await ended(4)).exit_code, 3);
});

test("a terminal takes input", async () => {
  editor.open(join(folder, "ask.sh"), "shellscript", readFileSync(join(folder, "ask.sh"), "utf8"));
  await vscode.commands.executeCommand("belljar.runInTerminal");
  const terminal = editor.terminals[4];
  for (const key of ["a", "n", "\x1b[A", "\x1bOP", "\x1b[3~", "\x1b[200~nx\x1b[201~", "\x1b", "\x7f", "\r"]) terminal.pty.handleInput(key);
  await editor.until("the program answers", () => /hello ann\r\n/.test(terminal.text));
  const run = await ended(5);
  assert.equal(run.exit_code, 0);
  terminal.pty.close(); // as the editor does when the user closes the terminal
  await vscode.commands.executeCommand("belljar.showLog", run);
  assert.equal(editor.terminals.length, 6);
  assert.match(editor.terminals[5].text, /hello ann\r\n/);
});

test("files that the settings leave out are sent again without the setting", async () => {
  editor.folderSettings["tldw.sandbox.sync.ignore"] = ["ask.sh"];
  await vscode.commands.executeCommand("tldw.sandbox.run", { command: ["test", "!", "-e", "ask.sh"], folder: vscode.Uri.file(folder).toString() });
  assert.equal((await ended(6)).exit_code, 0);
  delete editor.folderSettings["tldw.sandbox.sync.ignore"];
  await vscode.commands.executeCommand("tldw.sandbox.run", { command: ["test", "-e", "ask.sh"], folder: vscode.Uri.file(folder).toString() });
  assert.equal((await ended(7)).exit_code, 0);
});

test("an untrusted folder is not sent", async () => {
  vscode.workspace.isTrusted = false;
  await vscode.commands.executeCommand("tldw.sandbox.run", { uri: main.uri.toString() });
  assert.match(editor.errors.pop(), /not trusted/);
  assert.equal(runs().getChildren().length, 7);
  vscode.workspace.isTrusted = true;
});

test("without a server a run has no page, and errors of the server are shown with their hint", async () => {
  await vscode.commands.executeCommand("belljar.openInWeb");
  assert.match(editor.errors.pop(), /no page without a server/);
  editor.settings["tldw.sandbox.runtime"] = "no-such";
  await vscode.commands.executeCommand("tldw.sandbox.run", { uri: main.uri.toString() });
  assert.match(editor.errors.pop(), /no-such/);
  delete editor.settings["tldw.sandbox.runtime"];
});

test("a key is stored as a secret and goes to the server by its environment; without one the error offers to set it", async () => {
  editor.answers["API key of the Belljar server"] = "bj_secret";
  await vscode.commands.executeCommand("belljar.setApiKey");
  assert.deepEqual([...editor.secrets], [["belljar.apiKey", "bj_secret"]]);
  const other = join(root, "spy");
  writeFileSync(other, `#!/bin/sh\nif [ "$1" = version ]; then echo '{"version":"spy"}'; exit; fi\necho "$@" >${root}/argv; echo "$BELLJAR_API_KEY" >${root}/key\nexec ${program} "$1" --stdio\n`, { mode: 0o755 });
  editor.settings["tldw.sandbox.path"] = other;
  editor.settings["tldw.sandbox.serverUrl"] = "http://127.0.0.1:1/";
  await vscode.commands.executeCommand("belljar.setApiKey");
  assert.equal(readFileSync(join(root, "argv"), "utf8"), "lsp --stdio --server http://127.0.0.1:1\n");
  assert.equal(readFileSync(join(root, "key"), "utf8"), "bj_secret\n");
});

test("the server of the environment gets the stored key, unless the environment has one, and its runs have pages", async () => {
  delete editor.settings["tldw.sandbox.serverUrl"];
  process.env.BELLJAR_SERVER = "http://127.0.0.1:1";
  try {
    for (const key of ["", "of the environment"]) {
      if (key) process.env.BELLJAR_API_KEY = key;
      await vscode.commands.executeCommand("belljar.setApiKey");
      assert.equal(readFileSync(join(root, "argv"), "utf8"), "lsp --stdio\n");
      assert.equal(readFileSync(join(root, "key"), "utf8"), `${key || "bj_secret"}\n`);
    }
    await vscode.commands.executeCommand("belljar.sandbox.openRun", { run_id: "r1" });
    assert.deepEqual(editor.opened, ["http://127.0.0.1:1/webui/sandbox/runs/r1"]);
  } finally {
    delete process.env.BELLJAR_SERVER;
    delete process.env.BELLJAR_API_KEY;
  }
});

test("control strings of a program reach neither the terminal nor the program's input", async () => {
  const speaks = join(root, "strings.cjs");
  const notes = [
    ["stdout", "a\x1b]52;c;Y2xpcA==\x07b\x1b[1mc"], ["stdout", "\x1b"], ["stderr", "d"], ["stdout", "]52;c;"], ["stdout", "?\x1b"], ["stdout", "\\e"], ["stdout", "\x1b\x00]52;c;?\x07f"],
    ["stdout", "\x1b\x1b]0;t\x07]52;c;?\x07"], ["stdout", "\x9d52;c;?\x9cg\x1bPq\x1b\\\x90q\x18\x1b_x\x1b\\\x1b^x\x1b\\\x1bXx\x1b\\h\n"],
  ].map(([stream, data], seq) => ({ stream, data, seq }));
  writeFileSync(speaks, `#!/usr/bin/env node
    const send = (m) => { const s = JSON.stringify({ jsonrpc: "2.0", ...m }); process.stdout.write("Content-Length: " + Buffer.byteLength(s) + "\\r\\n\\r\\n" + s); };
    const note = (phase) => send({ method: "belljar/run", params: { run_id: "s", target: "file:///strings.py", phase } });
    if (process.argv[2] === "version") console.log('{"version":"x"}');
    else process.stdin.on("data", (b) => {
      for (const [, id] of String(b).matchAll(/"id":(\\d+)/g)) send({ id: +id, result: { capabilities: {}, run_id: "s", phase: "running", interactive: true } });
      for (const [, data] of String(b).matchAll(/"data":"([^"]*)"/g)) send({ method: "belljar/log", params: { run_id: "s", seq: 99, stream: "stdout", data: "got " + data } });
      if (String(b).includes('"rerun"')) {
        note("running");
        ${JSON.stringify(notes)}.forEach((n) => send({ method: "belljar/log", params: { run_id: "s", ...n } }));
      }
      if (String(b).includes('"exit"')) process.exit(0);
    });`, { mode: 0o755 });
  editor.settings["tldw.sandbox.path"] = speaks;
  await vscode.commands.executeCommand("belljar.setApiKey");
  await vscode.commands.executeCommand("belljar.rerun"); // of an interactive run
  const terminal = await editor.until("the output is shown", () => editor.terminals.find((one) => /h\r\n/.test(one.text)));
  assert.equal(terminal.text, "ab\x1b[1mcde\x00f]52;c;?\x07gh\r\n");
  for (const key of ["o", "\x1b]52;c;Y2xpcA==\x07", "\x1bP1$r0m\x1b\\", "k", "\r"]) terminal.pty.handleInput(key);
  await editor.until("the program has read it", () => /got ok\\n/.test(terminal.text));
  assert.deepEqual(editor.errors, []);
});

test("the end of a server is shown, and a lost run has ended for the editor", async () => {
  const speaks = join(root, "away.cjs"), notes = [{ phase: "running" }, { phase: "running", message: "no answer" }, { phase: "running" }, { phase: "running", message: "it is gone", lost: true }];
  writeFileSync(speaks, `#!/usr/bin/env node
    const send = (m) => { const s = JSON.stringify({ jsonrpc: "2.0", ...m }); process.stdout.write("Content-Length: " + Buffer.byteLength(s) + "\\r\\n\\r\\n" + s); };
    if (process.argv[2] === "version") console.log('{"version":"x"}');
    else process.stdin.on("data", (b) => {
      for (const [, id] of String(b).matchAll(/"id":(\\d+)/g)) send({ id: +id, result: { capabilities: {} } });
      if (String(b).includes('"initialized"')) ${JSON.stringify(notes)}.forEach((n) => send({ method: "belljar/run", params: { run_id: "r", target: "file:///a.py", ...n } }));
      if (String(b).includes('"exit"')) process.exit(0);
    });`, { mode: 0o755 });
  editor.settings["tldw.sandbox.path"] = speaks;
  await vscode.commands.executeCommand("belljar.setApiKey");
  await editor.until("the run is lost", () => /a\.py: lost/.test(editor.status.text));
  const run = runs().getChildren()[0], item = runs().getTreeItem(run);
  assert.deepEqual([item.contextValue, item.description], ["run.ended", "running when it was lost"]);
  await vscode.commands.executeCommand("belljar.showLog", run);
  assert.match(editor.terminals.at(-1).text, /no answer[^]*it is gone/);
  assert.deepEqual(editor.errors, []);
});

test("what a server followed is lost with it, and the terminals of runs that go on stay", async () => {
  const speaks = join(root, "many.cjs");
  writeFileSync(speaks, `#!/usr/bin/env node
    const send = (m) => { const s = JSON.stringify({ jsonrpc: "2.0", ...m }); process.stdout.write("Content-Length: " + Buffer.byteLength(s) + "\\r\\n\\r\\n" + s); };
    const note = (n, phase) => send({ method: "belljar/run", params: { run_id: process.pid + "-" + n, target: "file:///" + n + ".py", phase } });
    if (process.argv[2] === "version") console.log('{"version":"x"}');
    else process.stdin.on("data", (b) => {
      for (const [, id] of String(b).matchAll(/"id":(\\d+)/g)) send({ id: +id, result: { capabilities: {} } });
      if (String(b).includes('"initialized"')) {
        note("long", "running");
        for (let n = 1; n <= 7; n++) for (const phase of ["running", "completed"]) note(n, phase);
      }
      if (String(b).includes('"exit"')) process.exit(0);
    });`, { mode: 0o755 });
  editor.settings["tldw.sandbox.path"] = speaks;
  const before = editor.terminals.length;
  await vscode.commands.executeCommand("belljar.setApiKey");
  const noted = (id) => runs().getChildren().filter((run) => run.run_id.endsWith(id));
  await editor.until("the last run has ended", () => noted("-7")[0]?.phase === "completed");
  assert.deepEqual(editor.terminals.slice(before).filter((one) => one.disposed).map((one) => one.name), ["Belljar: 1.py"]);
  await vscode.commands.executeCommand("belljar.setApiKey");
  const [last] = noted("-long").filter((run) => run.lost);
  assert.equal(runs().getTreeItem(last).contextValue, "run.ended");
  await vscode.commands.executeCommand("belljar.showLog", last);
  assert.match(editor.terminals[before].text, /followed no further/);
  assert.deepEqual(editor.errors, []);
});

test("a server that is replaced while it starts does not stay", async () => {
  const slow = join(root, "slow"), started = () => (existsSync(`${slow}.pids`) ? readFileSync(`${slow}.pids`, "utf8").split("\n").slice(0, -1).map(Number) : []);
  writeFileSync(slow, `#!/bin/sh\n[ "$1" = version ] || { echo $$ >>${slow}.pids; until [ -e ${slow}.go ]; do sleep 0.05; done; }\nexec ${program} "$@"\n`, { mode: 0o755 });
  editor.settings["tldw.sandbox.path"] = slow;
  delete editor.settings["tldw.sandbox.serverUrl"];
  const first = vscode.commands.executeCommand("belljar.setApiKey");
  await editor.until("the first is starting", () => started().length === 1);
  const second = vscode.commands.executeCommand("belljar.setApiKey");
  writeFileSync(`${slow}.go`, "");
  await Promise.all([first, second]);
  await editor.until("one is left", () => started().filter((pid) => existsSync(`/proc/${pid}`)).length === 1);
  assert.deepEqual(editor.errors, []);
});

test("a program that is missing, or is not belljar, is named", async () => {
  editor.settings["tldw.sandbox.path"] = "/no/such/belljar";
  await vscode.commands.executeCommand("belljar.setApiKey");
  assert.match(editor.errors.pop(), /\/no\/such\/belljar is not installed/);
  editor.settings["tldw.sandbox.path"] = "/bin/true";
  await vscode.commands.executeCommand("belljar.setApiKey");
  assert.match(editor.errors.pop(), /\/bin\/true version --json does not work/);
});

test("lenses can be turned off and on again, without another server", async () => {
  editor.settings["tldw.sandbox.path"] = join(root, "counted");
  delete editor.settings["tldw.sandbox.serverUrl"];
  writeFileSync(join(root, "counted"), `#!/bin/sh\n[ "$1" = version ] || echo $$ >>${root}/pids\nexec ${program} "$@"\n`, { mode: 0o755 });
  await vscode.commands.executeCommand("belljar.setApiKey");
  assert.equal((await lenses(main)).length, 1);
  for (const [on, count] of [[false, 0], [true, 1]]) {
    const before = editor.refreshes;
    editor.configure("tldw.sandbox.codeLens", on);
    await editor.until("lenses are asked for again", () => editor.refreshes > before);
    assert.equal((await lenses(main)).length, count);
  }
  assert.equal(pids().length, 1);
});

test("without a file, an empty command runs the folder's own", async () => {
  editor.answers["work: image"] = "";
  editor.answers["work: command"] = `["sh", "-c", "exit 7"]`;
  await vscode.commands.executeCommand("tldw.sandbox.configure");
  const { window } = vscode, active = window.activeTextEditor;
  window.activeTextEditor = undefined;
  editor.answers["Run in Sandbox"] = "";
  const { run_id } = await vscode.commands.executeCommand("tldw.sandbox.run");
  window.activeTextEditor = active;
  delete editor.answers["work: image"];
  await editor.until("the run has ended", () => runs().getChildren().find((run) => run.run_id === run_id)?.exit_code === 7);
});

const pids = () => readFileSync(join(root, "pids"), "utf8").split("\n").slice(0, -1).map(Number);

test("a server that ends is started again, four times, and then with the next command", async () => {
  const { run_id } = await vscode.commands.executeCommand("tldw.sandbox.run", { command: ["sleep", "1000"], folder: vscode.Uri.file(folder).toString() });
  const run = () => runs().getChildren().find((one) => one.run_id === run_id);
  await editor.until("the program runs", () => run()?.phase === "running");
  for (let n = 1; n <= 5; n++) {
    await editor.until(`server ${n} is started`, () => pids().length === n);
    await vscode.commands.executeCommand("tldw.sandbox.configure"); // the command answers
    process.kill(pids()[n - 1], "SIGKILL");
  }
  assert.equal(run().lost, true);
  await editor.until("the log says so", () => editor.lines.some((line) => /ended 5 times in 3 minutes/.test(line)));
  assert.equal(pids().length, 5);
  assert.deepEqual(editor.errors, []);
  await vscode.commands.executeCommand("tldw.sandbox.configure");
  assert.equal(pids().length, 6);
});

test("the manifest, the code and the document agree", () => {
  const declared = manifest.contributes.commands.map((c) => c.command);
  for (const name of declared) assert.ok(editor.commands.has(name), name);
  const page = readFileSync(new URL("../../../docs/ide.md", import.meta.url), "utf8");
  const code = readFileSync(new URL("../src/settings.ts", import.meta.url), "utf8");
  const { properties } = manifest.contributes.configuration;
  for (const name of Object.keys(properties)) {
    const short = name.replace("tldw.sandbox.", "");
    assert.ok(page.includes(`\`${name}\``), `docs/ide.md lacks ${name}`);
    assert.ok(code.includes(`"${short}"`), `src/settings.ts lacks ${short}`);
  }
  // What a folder must not choose.
  const own = [...code.matchAll(/this\.own(?:<[^(]*>)?\("([\w.]+)"/g)].map(([, short]) => short);
  assert.deepEqual(own.sort(), ["apiKey", "image", "path", "runtime", "serverUrl", "sync.allow"]);
  for (const short of own) assert.equal(properties[`tldw.sandbox.${short}`].scope, "application", short);
  assert.equal(readFileSync(new URL(`../${manifest.icon}`, import.meta.url)).readUInt32BE(16), 128); // its width
  for (const name of manifest.capabilities.untrustedWorkspaces.restrictedConfigurations) assert.equal(properties[name].scope, "application", name);
});
