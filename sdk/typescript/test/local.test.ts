// Private belljars, and programs that must exit without a call of process.exit.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { Belljar, InvalidRequestError, RuntimeUnavailableError } from "belljar-sdk";
import { atEnd, binary, limitMs, local, patient, tempDir, until, within } from "./world.js";

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]![0] !== "Z";
  } catch {
    return false;
  }
}

/** program runs a program that uses the SDK, and returns its output and exit status. */
async function program(t: TestContext, code: string): Promise<{ out: string; status: number | null }> {
  const file = join(tempDir(t), "program.mjs");
  const sdk = new URL("../../dist/index.js", import.meta.url).href;
  writeFileSync(file, `import { Belljar } from ${JSON.stringify(sdk)};\nconst binary = ${JSON.stringify(binary)};\n` +
    `const belljar = await Belljar.local({ binary, set: ${JSON.stringify(patient)}, startTimeoutMs: ${limitMs} });\nconsole.log(belljar.pid);\n${code}`);
  const child = spawn(process.execPath, [file], { stdio: ["ignore", "pipe", "inherit"], detached: true }); // its own process group
  atEnd(t, () => child.kill("SIGKILL"));
  let out = "";
  child.stdout.on("data", (d: Buffer) => (out += d.toString()));
  const [status] = (await within("the program", once(child, "close"))) as [number | null];
  const pid = Number(out.split("\n")[0]);
  await until("the end of its belljar", () => !lives(pid));
  return { out, status };
}

test("a belljar of one's own runs things, and is gone behind close()", async (t) => {
  const belljar = await local(t);
  const pid = belljar.pid!;
  assert.ok(lives(pid));
  assert.equal((await belljar.run(["echo", "hi"])).stdout, "hi\n");
  const session = await belljar.sessions.create();
  const asking = session.run(["sleep", "600"]).catch((e: unknown) => e);
  await Promise.all([belljar.close(), belljar.close()]);
  assert.equal(lives(pid), false);
  assert.ok((await within("the call", asking)) instanceof Error);
  await assert.rejects(belljar.me(), /closed/);
});

test("a data folder keeps sessions for the next start, and the death of belljar is reported at once", async (t) => {
  const data = tempDir(t);
  const first = await Belljar.local({ binary, data, set: patient, startTimeoutMs: limitMs });
  const run = await first.run(["echo", "kept"]);
  await first.close();
  const second = await Belljar.local({ binary, data, set: patient, startTimeoutMs: limitMs });
  atEnd(t, () => second.close());
  assert.equal((await second.runs.wait(run.id)).stdout, "kept\n");
  process.kill(second.pid!, "SIGKILL");
  await assert.rejects(within("the failure", second.me()), { name: "RuntimeUnavailableError", message: /has ended/, hint: /Belljar\.local/ });
});

test("the death of a belljar that has not answered yet is reported as such", async (t) => {
  const belljar = await Belljar.local({ binary, set: patient, startTimeoutMs: limitMs });
  atEnd(t, () => belljar.close());
  process.kill(belljar.pid!, "SIGKILL");
  await assert.rejects(within("the failure", belljar.me()), { name: "RuntimeUnavailableError", message: /has ended/ });
});

test("a program that cannot be started says why", async (t) => {
  const error = async (options: Parameters<typeof Belljar.local>[0]): Promise<RuntimeUnavailableError> => {
    const e = await Belljar.local(options).then(() => assert.fail("it started"), (e: unknown) => e);
    assert.ok(e instanceof RuntimeUnavailableError, String(e));
    return e;
  };
  assert.match((await error({ binary: "/no/such/belljar" })).hint, /BELLJAR_BIN/);
  const wrong = await error({ binary, set: { no_such_setting: 1 }, startTimeoutMs: limitMs });
  assert.match(String(wrong.details["log"]), /no_such_setting/);
  assert.match(wrong.message, /no_such_setting/);
  const dir = tempDir(t);
  mkdirSync(dir, { recursive: true });
  const odd = join(dir, "odd");
  writeFileSync(odd, "#!/bin/sh\necho something else\ncat >/dev/null\n", { mode: 0o755 });
  assert.match((await error({ binary: odd })).message, /could not be started/);
  const quiet = join(dir, "quiet");
  writeFileSync(quiet, "#!/bin/sh\nexec cat >/dev/null\n", { mode: 0o755 });
  assert.match((await error({ binary: quiet, startTimeoutMs: 300 })).message, /not ready/);
});

test("a process that forgets its belljar ends all the same, and the belljar with it", async (t) => {
  const { out, status } = await program(t, `
    const session = await belljar.sessions.create();
    console.log((await session.exec("echo hello")).output);
  `);
  assert.equal(status, 0);
  assert.match(out, /hello/);
});

test("a process that dies takes its belljar along", async (t) => {
  const { status } = await program(t, `
    await belljar.runs.start(["sleep", "600"]);
    process.kill(process.pid, "SIGKILL");
  `);
  assert.equal(status, null);
});

test("Ctrl-C is for the program, which may still want its belljar", async (t) => {
  const { out, status } = await program(t, `
    const keep = setInterval(() => {}, 1000);
    process.on("SIGINT", async () => {
      console.log((await belljar.run(["echo", "still here"])).stdout);
      clearInterval(keep);
    });
    process.kill(0, "SIGINT"); // all of the group, as a terminal does it
  `);
  assert.equal(status, 0);
  assert.match(out, /still here/);
});

test("what is given up in the midst leaves no socket and no timer", async (t) => {
  const { out, status } = await program(t, `
    const session = await belljar.sessions.create();
    const many = [
      (signal) => belljar.run(["sleep", "600"], { signal }),
      (signal) => belljar.run(["sleep", "600"], { signal, onOutput() {} }),
      (signal) => session.exec("sleep 600", { signal }),
      (signal) => session.run(["sleep", "600"], { signal, timeoutMs: 500_000 }),
      async (signal) => {
        const run = await belljar.runs.start(["sleep", "600"]);
        for await (const frame of belljar.runs.frames(run.id, { signal }));
      },
      async (signal) => {
        const run = await belljar.runs.start({ command: ["cat"], interactive: true });
        const input = await belljar.runs.input(run.id, { signal });
        await input.closed;
        await input.write("x");
      },
      async (signal) => {
        const terminal = await session.terminal({ command: ["cat"] }, { signal });
        for await (const event of terminal);
      },
      (signal) => session.files.write("big", (async function* () { for (;;) yield new Uint8Array(1000); })(), { signal }),
      async (signal) => { for await (const piece of await session.files.open("/workspace/other", { signal })); },
      (signal) => belljar.me({ signal: AbortSignal.abort() }),
    ];
    const stop = new AbortController();
    const all = Promise.allSettled(many.map((begin) => begin(stop.signal)));
    const busy = await belljar.sessions.create();
    await busy.exec("true"); // by then most of them are on their way
    stop.abort();
    const results = await all;
    console.log("rejected", results.filter((r) => r.status === "rejected").length, "of", many.length);
    // No close(): nothing must keep this process.
  `);
  assert.equal(status, 0);
  assert.match(out, /rejected 10 of 10/);
});

test("a local belljar whose client cannot be made ends", async (t) => {
  const data = tempDir(t);
  const options = { binary, data, set: patient, startTimeoutMs: limitMs };
  await assert.rejects(Belljar.local({ ...options, source: "ü" }), InvalidRequestError);
  await (await Belljar.local(options)).close(); // only one server at a time can use a folder
});
