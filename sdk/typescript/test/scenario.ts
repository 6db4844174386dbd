// Plays test/scenario/scenario.json through this SDK: see test/scenario/README.md.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { Belljar, BelljarError, type FileEntry, type RunResult, type RunSpec, type Scope } from "belljar-sdk";

type Bytes = string | { base64: string } | { repeat: string; times: number };
type Result = Record<string, unknown>;

interface Args {
  run?: string;
  session?: string;
  command?: string[];
  code?: string;
  language?: string;
  cmd?: string;
  cwd?: string;
  env?: Record<string, string>;
  stdin?: Bytes;
  files?: Record<string, Bytes>;
  timeout_sec?: number;
  memory_mb?: number;
  image?: string;
  capture?: string[];
  idempotency_key?: string;
  piece?: number;
  until?: string;
  scope?: Scope;
  ttl_sec?: number;
  prefix?: string;
  path?: string;
  contents?: Bytes;
  overwrite?: boolean;
  recursive?: boolean;
  offset?: number;
  length?: number;
}

interface Step {
  step: string;
  do: string;
  with: Args;
  save?: string;
  except?: Record<string, string>;
}

const belljar = new Belljar();

const operations: Record<string, (args: Args) => Promise<Result>> = {
  run: async (a) => ended(await belljar.run(specOf(a), { idempotencyKey: a.idempotency_key })),
  start: async (a) => ({ run: (await belljar.runs.start(specOf(a), { idempotencyKey: a.idempotency_key })).id }),
  wait: async (a) => ended(await belljar.runs.wait(a.run!)),
  get: async (a) => {
    const run = await belljar.runs.get(a.run!);
    return { run: run.id, phase: run.phase, exit_code: run.exit_code, reason_code: run.reason_code ?? null };
  },
  cancel: async (a) => {
    await belljar.runs.cancel(a.run!);
    return {};
  },
  logs,
  artifacts: async (a) => ({ artifacts: (await belljar.artifacts.list(a.run!)).map(({ path, size }) => ({ path, size })) }),
  artifact: async (a) => ({ contents: written(await belljar.artifacts.read(a.run!, a.path!)) }),
  open: async (a) => {
    const session = await belljar.sessions.open({ scope: a.scope!, ttl_sec: a.ttl_sec, env: a.env, base_image: "host" });
    return { session: session.id, created: session.created };
  },
  sessions: async (a) => {
    const { items } = await belljar.sessions.list({ keyPrefix: a.prefix });
    return { scopes: (items ?? []).map((s) => s.scope_key ?? "").sort((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y))) };
  },
  close: async (a) => {
    await belljar.sessions.use(a.session!).destroy();
    return {};
  },
  close_all: async (a) => ({ closed: (await belljar.sessions.closeAll(a.prefix!)).length }),
  exec: async (a) => ended(await belljar.sessions.use(a.session!).run(specOf(a))),
  shell: async (a) => {
    const r = await belljar.sessions.use(a.session!).exec(a.cmd!, { separate: true });
    const [stdout, stderr] = [r.stdout, r.stderr].map((text) => written(Buffer.from(text)));
    return { exit_code: r.exitCode, stdout, stderr, cwd: r.cwd, shell: r.shell };
  },
  write: async (a) => {
    await belljar.sessions.use(a.session!).files.write(a.path!, read(a.contents), { overwrite: a.overwrite });
    return {};
  },
  read: async (a) => {
    const files = belljar.sessions.use(a.session!).files;
    return { contents: written(await files.read(a.path!, { offset: a.offset, limit: a.length })) };
  },
  list: async (a) => {
    const { entries } = await belljar.sessions.use(a.session!).files.list(a.path, { recursive: a.recursive });
    return { entries: (entries ?? []).map(entry) };
  },
  delete: async (a) => {
    await belljar.sessions.use(a.session!).files.delete(a.path!, { recursive: a.recursive });
    return {};
  },
};

function specOf(a: Args): RunSpec {
  const files = Object.entries(a.files ?? {}).map(([path, content]) => [path, read(content)]);
  return {
    command: a.command, code: a.code, language: a.language, session_id: a.session, base_image: a.image, cwd: a.cwd, env: a.env,
    stdin: a.stdin === undefined ? undefined : Buffer.from(read(a.stdin)).toString(), timeout_sec: a.timeout_sec,
    capture_patterns: a.capture, ...(a.files ? { files: Object.fromEntries(files) as Record<string, Uint8Array> } : {}),
    ...(a.memory_mb ? { resources: { memory_mb: a.memory_mb } } : {}),
  };
}

function ended(r: RunResult): Result {
  return {
    run: r.id, phase: r.phase, exit_code: r.exitCode, reason_code: r.reason || null,
    stdout: written(r.stdoutBytes), stderr: written(r.stderrBytes),
  };
}

function entry(e: FileEntry): Result {
  return { path: e.path, type: e.type, ...(e.type === "file" ? { size: e.size } : {}) };
}

async function logs({ run, piece, until }: Args): Promise<Result> {
  const stdout: Uint8Array[] = [];
  let next = 1;
  let gapless = true;
  let phase: unknown = null;
  for (let done = false; !done; ) {
    let taken = 0;
    for await (const frame of belljar.runs.frames(run!, { from: next })) {
      gapless &&= frame.seq === next;
      next = frame.seq + 1;
      if (frame.type === "stdout") {
        stdout.push(frame.data);
        done = until !== undefined && Buffer.concat(stdout).includes(until);
      }
      if (frame.type === "event" && frame.event === "end") {
        phase = frame.data["phase"];
        done = true;
      }
      if (done || ++taken === piece) break;
    }
  }
  return { stdout: written(Buffer.concat(stdout)), gapless, phase };
}

function read(bytes: Bytes = ""): Uint8Array {
  if (typeof bytes === "string") return Buffer.from(bytes);
  if ("base64" in bytes) return Buffer.from(bytes.base64, "base64");
  return Buffer.from(bytes.repeat.repeat(bytes.times));
}

function written(bytes: Uint8Array): unknown {
  if (bytes.length > 1024) return { bytes: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") };
  const text = Buffer.from(bytes).toString();
  return Buffer.from(text).equals(bytes) ? text : { base64: Buffer.from(bytes).toString("base64") };
}

const { version, steps } = JSON.parse(readFileSync(process.argv[2]!, "utf8")) as { version: number; steps: Step[] };
if (version !== 1) throw new Error(`version ${version} is not known`);

const saved = new Map<string, string>(); // ids, by the names in the steps
const seen = new Map<string, string>(); // step names, by the ids that the steps returned first

for (const step of steps) {
  if (step.except?.["typescript"]) continue;
  const operation = operations[step.do];
  if (!operation) throw new Error(`operation ${step.do} is not known`);
  const args = { ...step.with };
  for (const name of ["run", "session"] as const) {
    if (args[name]?.startsWith("$")) args[name] = saved.get(args[name].slice(1)) ?? args[name];
  }
  const result = await operation(args).catch((error: unknown): Result => {
    if (!(error instanceof BelljarError)) throw error;
    return { error: { code: error.code, hint: error.hint !== "" } };
  });
  for (const name of ["run", "session"]) {
    const id = result[name];
    if (typeof id !== "string") continue;
    if (step.save) saved.set(step.save, id);
    result[name] = seen.get(id) ?? "new";
    if (!seen.has(id)) seen.set(id, step.step);
  }
  console.log(JSON.stringify({ step: step.step, result }));
}
await belljar.close();
