// Checks a belljar MCP server with the official TypeScript client. It prints one line of JSON for each check.
//
//   node check.mjs stdio BELLJAR [ARGS…]      starts BELLJAR mcp ARGS…
//   node check.mjs http URL KEY               connects to a server
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";
import assert from "node:assert/strict";

const [kind, target, ...rest] = process.argv.slice(2);
const patience = { timeout: 240_000 }; // for calls that must succeed, on a busy machine

/** Returns a transport of the tested kind. terms are the client's settings: flags on stdio, a query on HTTP. */
function transport(terms, sessionId) {
  if (kind === "stdio") {
    const flags = Object.entries(terms).flatMap(([name, value]) => [`--${name}`, value]);
    return new StdioClientTransport({ command: target, args: ["mcp", ...rest, ...flags], env: process.env, stderr: "inherit" });
  }
  const url = new URL(target);
  if (!sessionId) for (const [name, value] of Object.entries(terms)) url.searchParams.set(name, value);
  return new StreamableHTTPClientTransport(url, { sessionId, requestInit: { headers: { authorization: `Bearer ${rest[0]}` } } });
}

async function connect(terms, name = "check") {
  const client = new Client({ name, version: "1" }, { capabilities: {} });
  const via = transport(terms);
  await client.connect(via, patience);
  const call = async (tool, args, options = {}) => {
    const result = await client.callTool({ name: tool, arguments: args }, CallToolResultSchema, { ...patience, ...options });
    return { ...result, text: result.content.find((c) => c.type === "text")?.text ?? "", data: result.structuredContent };
  };
  return { client, via, call };
}

const code = { mode: "code" };

/** Calls so until it returns true. */
async function until(what, so) {
  for (let end = Date.now() + 240_000; !(await so()); ) {
    if (Date.now() > end) throw new Error(`never so: ${what}`);
    await new Promise((go) => setTimeout(go, 20)); // between two checks of the condition
  }
}

const checks = {
  async initialize() {
    const { client } = await connect(code);
    assert.equal(client.getServerVersion().name, "belljar");
    assert.ok(client.getServerCapabilities().tools && client.getServerCapabilities().resources);
    assert.match(client.getInstructions(), /sandbox_open first/);
    await client.ping();
    await client.close();
  },
  async list() {
    const { client } = await connect(code);
    const { tools } = await client.listTools();
    const ours = ["open", "code", "exec", "exec_read", "exec_wait", "fork", "fs_write", "fs_read", "fs_list", "fs_delete", "close"].map((n) => `sandbox_${n}`);
    assert.deepEqual(tools.map((t) => t.name).sort(), [...ours, "sandbox.run"].sort());
    for (const tool of tools) assert.ok(tool.outputSchema && tool.annotations && tool.description, tool.name);
    await client.close();
    const compute = await connect({ mode: "compute" });
    assert.deepEqual((await compute.client.listTools()).tools.map((t) => t.name).sort(), ["sandbox.run", "sandbox_run"]);
    await compute.client.close();
  },
  async compute() {
    const { client, call } = await connect({ mode: "compute" });
    const done = await call("sandbox_run", { code: "print(sum(range(10)))\nraise SystemExit(3)", runtime: "python" });
    assert.deepEqual([done.data.ok, done.data.exit_code, done.data.stdout], [false, 3, "45\n"]);
    assert.ok(!done.isError);
    assert.match(done.text, /exit code 3[^]*stdout:\n45/);
    const once = await call("sandbox.run", { base_image: "host", command: ["id", "-u"], env: { A: "b" }, files: [{ path: "x", content_b64: "eA==" }] });
    assert.deepEqual([once.data.phase, once.data.exit_code, once.data.stdout], ["completed", 0, "1000\n"]);
    assert.ok(once.data.run_id && once.data.policy_hash);
    if (kind === "http") assert.match(once.data.log_stream_url, /^ws:\/\/.*\/runs\/.*\/stream/);
    await client.close();
  },
  async code() {
    const { client, call } = await connect(code);
    const { sandbox_id } = (await call("sandbox_open", {})).data;
    assert.equal((await call("sandbox_open", {})).data.created, false);
    await call("sandbox_fs_write", { sandbox_id, path: "main.py", contents: "print(open('in.txt').read()[::-1])\n" });
    await call("sandbox_fs_write", { sandbox_id, path: "/workspace/in.txt", contents_b64: Buffer.from("olleh").toString("base64") });
    const ran = await call("sandbox_exec", { sandbox_id, cmd: ["python3", "main.py"] });
    assert.deepEqual([ran.data.status, ran.data.exit_code, ran.data.stdout], ["completed", 0, "hello\n"]);
    assert.deepEqual((await call("sandbox_fs_list", { sandbox_id, path: "." })).data.entries.map((e) => e.path).filter((p) => !p.startsWith(".")), ["in.txt", "main.py"]);
    assert.equal((await call("sandbox_fs_read", { sandbox_id, path: "in.txt" })).data.contents, "olleh");
    await call("sandbox_fs_delete", { sandbox_id, path: "in.txt" });
    const failed = await call("sandbox_exec", { sandbox_id, cmd: ["python3", "main.py"] });
    assert.equal(failed.data.exit_code, 1);
    assert.match(failed.data.stderr, /FileNotFoundError/);
    assert.ok((await call("sandbox_close", { sandbox_id })).data.ok);
    const gone = await call("sandbox_exec", { sandbox_id, cmd: ["true"] });
    assert.ok(gone.isError);
    assert.match(gone.text, /sandbox_open/);
    await client.close();
  },
  async "bad calls"() {
    const { client, call } = await connect(code);
    await assert.rejects(call("sandbox_nope", {}), /unknown tool.*sandbox_open/);
    const wrong = await call("sandbox_exec", { sandbox_id: "x", cmd: "ls" });
    assert.ok(wrong.isError);
    assert.match(wrong.text, /cmd must be an array, got a string/);
    assert.match((await call("sandbox_exec", { sandbox_id: "x", cmd: ["ls"] })).text, /does not exist[^]*sandbox_open/);
    await assert.rejects(client.readResource({ uri: "belljar://runs/none/output" }), /does not exist/);
    await client.close();
  },
  async progress() {
    const { client, call } = await connect(code);
    const { sandbox_id } = (await call("sandbox_open", {})).data;
    const heard = [];
    const onprogress = (p) => {
      heard.push(p);
      if (p.message === "working") call("sandbox_fs_write", { sandbox_id, path: "heard", contents: "" }).catch(() => {}); // else the command never ends
    };
    await call("sandbox_exec", { sandbox_id, cmd: ["sh", "-c", "echo working; until [ -e heard ]; do sleep .1; done"] }, { onprogress });
    assert.match(heard[0].message, /^exec [0-9a-f-]+/);
    for (let i = 1; i < heard.length; i++) assert.ok(heard[i].progress > heard[i - 1].progress);
    await client.close();
  },
  async cancel() {
    const { client, call } = await connect(code);
    const { sandbox_id } = (await call("sandbox_open", {})).data;
    const stop = new AbortController();
    const call1 = call("sandbox_exec", { sandbox_id, cmd: ["sh", "-c", "echo $$ > pid; exec sleep 1000"] }, { signal: stop.signal });
    call1.catch(() => {}); // asserted below
    const sh = async (line) => (await call("sandbox_exec", { sandbox_id, cmd: ["sh", "-c", line] })).data.exit_code;
    await until("the command runs", async () => (await sh("test -s pid")) === 0);
    stop.abort("the user pressed stop");
    await assert.rejects(call1);
    await until("the command is gone", async () => (await sh("kill -0 $(cat pid) 2>/dev/null")) !== 0);
    await client.close();
  },
  async "a request that times out"() {
    const { client, call } = await connect(code);
    const { sandbox_id } = (await call("sandbox_open", {})).data;
    let exec_id;
    // Over HTTP the client's cancellation is sent beside its next calls, so any of their results may include the exec_id, once.
    const begun = async () => {
      const list = await call("sandbox_fs_list", { sandbox_id, path: "." });
      exec_id ??= list.text.match(/exec_id ([0-9a-f-]+)/)?.[1];
      return list.data.entries.some((e) => e.path === "begun");
    };
    const cmd = ["sh", "-c", "touch begun; until [ -e go ]; do sleep .1; done; echo went"];
    for (let timeout = 1000; !(await begun()); timeout *= 2) { // a busy machine may not begin in time, and then no progress is reported
      await assert.rejects(call("sandbox_exec", { sandbox_id, cmd }, { timeout }), /timed out/i);
    }
    await until("a result tells", async () => (await begun(), exec_id));
    await call("sandbox_fs_write", { sandbox_id, path: "go", contents: "" });
    await until("it ends", async () => (await call("sandbox_exec_wait", { sandbox_id, exec_id })).data.done);
    const read = await call("sandbox_exec_read", { sandbox_id, exec_id });
    assert.equal(read.data.chunks.map((c) => c.text).join(""), "went\n");
    await client.close();
  },
  async "pictures and artifacts"() {
    const { client, call } = await connect(code);
    const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
    const { sandbox_id } = (await call("sandbox_open", {})).data;
    await call("sandbox_fs_write", { sandbox_id, path: "plot.png", contents_b64: png });
    const seen = await call("sandbox_fs_read", { sandbox_id, path: "plot.png" });
    assert.deepEqual(seen.content.find((c) => c.type === "image"), { type: "image", mimeType: "image/png", data: png });
    const ran = await call("sandbox.run", { base_image: "host", command: ["sh", "-c", `mkdir artifacts; echo data > artifacts/a.csv; echo ${png} | base64 -d > p.png`] });
    assert.equal(ran.content.find((c) => c.type === "image").data, png);
    const link = ran.content.find((c) => c.type === "resource_link" && c.name === "artifacts/a.csv");
    assert.equal((await client.readResource({ uri: link.uri })).contents[0].text, "data\n");
    assert.ok((await client.listResources()).resources.some((r) => r.uri === link.uri));
    assert.ok((await client.listResourceTemplates()).resourceTemplates.length >= 3);
    await client.close();
  },
  async "huge and binary output"() {
    const { client, call } = await connect(code);
    const { sandbox_id } = (await call("sandbox_open", {})).data;
    const huge = await call("sandbox_exec", { sandbox_id, cmd: ["sh", "-c", "seq 1 200000"] });
    assert.ok(huge.data.stdout_truncated && huge.text.length < 60_000);
    assert.match(huge.text, /bytes left out here[^]*sandbox_exec_read/);
    let all = "";
    for (let since_seq = 0, done = false; !done; ) {
      const part = (await call("sandbox_exec_read", { sandbox_id, exec_id: huge.data.exec_id, since_seq, max_chunks: 1000 })).data;
      all += part.chunks.map((c) => c.text).join("");
      [since_seq, done] = [part.next_seq, part.done];
    }
    assert.equal(all, Array.from({ length: 200000 }, (_, i) => `${i + 1}\n`).join(""));
    const binary = await call("sandbox_exec", { sandbox_id, cmd: ["printf", "\\377\\000a"] });
    assert.deepEqual([binary.data.stdout, binary.data.stdout_encoding], ["/wBh", "base64"]);
    await client.close();
  },
};

if (kind === "http" || rest.includes("--server")) {
  checks["a workflow of two"] = async () => {
    const terms = { ...code, workflow: `w${process.pid}` };
    const [one, two] = [await connect(terms), await connect(terms)];
    const { sandbox_id } = (await one.call("sandbox_open", {})).data;
    assert.equal((await two.call("sandbox_open", {})).data.sandbox_id, sandbox_id);
    const other = await connect(code);
    assert.match((await other.call("sandbox_exec", { sandbox_id, cmd: ["true"] })).text, /does not exist/);
    await one.call("sandbox_fs_write", { sandbox_id, path: "f", contents: "shared" });
    await one.client.close();
    assert.equal((await two.call("sandbox_fs_read", { sandbox_id, path: "f" })).data.contents, "shared");
    await two.call("sandbox_close", { sandbox_id });
    await two.client.close();
    await other.client.close();
  };
}

if (kind === "http") {
  checks["resume an answer"] = async () => {
    const { client, via, call } = await connect(code);
    const { sandbox_id } = (await call("sandbox_open", {})).data;
    let token;
    const params = { name: "sandbox_exec", arguments: { sandbox_id, cmd: ["sh", "-c", "until [ -e go ]; do sleep .1; done; echo went"] } };
    client.request({ method: "tools/call", params }, CallToolResultSchema, { ...patience, onresumptiontoken: (t) => (token = t) }).catch(() => {}); // its connection breaks
    await until("the stream has begun", () => token);
    const session = via.sessionId;
    await client.close(); // without DELETE: only the connection closes

    const again = new Client({ name: "check", version: "1" }, { capabilities: {} });
    await again.connect(transport(code, session), patience);
    const answer = again.request({ method: "tools/call", params }, CallToolResultSchema, { ...patience, resumptionToken: token });
    await again.callTool({ name: "sandbox_fs_write", arguments: { sandbox_id, path: "go", contents: "" } }, CallToolResultSchema, patience);
    assert.equal((await answer).structuredContent.stdout, "went\n");
    await again.close();
  };
  checks["read on after a reconnect"] = async () => {
    const { client, via, call } = await connect(code);
    const { sandbox_id } = (await call("sandbox_open", {})).data;
    const { exec_id } = (await call("sandbox_exec", { sandbox_id, stream: true, cmd: ["sh", "-c", "echo one; until [ -e go ]; do sleep .1; done; echo two"] })).data;
    const session = via.sessionId;
    await client.close();

    const again = new Client({ name: "check", version: "1" }, { capabilities: {} });
    const back = transport(code, session);
    await again.connect(back, patience);
    const ask = async (name, args) => (await again.callTool({ name, arguments: { sandbox_id, ...args } }, CallToolResultSchema, patience)).structuredContent;
    await ask("sandbox_fs_write", { path: "go", contents: "" });
    let text = "";
    for (let since_seq = 0, done = false; !done; ) {
      const part = await ask("sandbox_exec_read", { exec_id, since_seq });
      text += part.chunks.map((c) => c.text).join("");
      [since_seq, done] = [part.next_seq, part.done];
    }
    assert.equal(text, "one\ntwo\n");
    await back.terminateSession();
    await assert.rejects(again.ping(), /404|session/i);
    await again.close();
  };
  checks["without a key"] = async () => {
    const client = new Client({ name: "check", version: "1" }, { capabilities: {} });
    await assert.rejects(client.connect(new StreamableHTTPClientTransport(new URL(target)), patience), /401|unauthorized/i);
  };
}

for (const [name, check] of Object.entries(checks)) {
  let why;
  try {
    await check();
  } catch (e) {
    why = e.stack;
  }
  console.log(JSON.stringify({ name, ok: why === undefined, why }));
}
process.exit(0);
