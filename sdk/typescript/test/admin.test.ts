// Operators' calls, against a real belljar.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  ConflictError, ForbiddenError, ImageInvalidError, InvalidRequestError, NotFoundError, PolicyDeniedError, UnauthorizedError,
  type Approval, type Belljar, type ImageProgress,
} from "belljar-sdk";
import { client, fake, json, serve, type Owner, type Server } from "./world.js";

let server: Server;
let belljar: Belljar;
let owner: Owner;
let end: () => unknown;

before(async () => {
  owner = { after: (all) => (end = all) };
  server = await serve(owner);
  belljar = client(owner, server.url, { apiKey: server.apiKey });
});
after(() => end());

test("API keys, all users' runs, usage and quotas", async (t) => {
  const made = await belljar.tokens.create({ user_id: "ann", name: "tests", ttl_sec: 600 });
  assert.equal(made.role, "user");
  assert.ok(made.secret);
  const ann = client(t, server.url, { apiKey: made.secret! });
  const run = await ann.run(["true"]);
  assert.equal((await ann.me()).user_id, "ann");
  await assert.rejects(ann.tokens.list(), ForbiddenError);
  await assert.rejects(ann.admin.usage(), ForbiddenError);

  const [listed, ...more] = (await belljar.tokens.list()).filter(({ id }) => id === made.id);
  assert.deepEqual([listed!.user_id, listed!.secret, more.length], ["ann", undefined, 0]);
  const page = await belljar.admin.runs({ userId: "ann", phase: "completed", image: "host", sort: "started_at:asc", limit: 200 });
  assert.deepEqual(page.items.map(({ id }) => id), [run.id]);
  assert.equal((await belljar.admin.runs({ userId: "nobody" })).total, 0);
  assert.equal((await belljar.admin.run(run.id)).exit_code, 0);
  assert.ok((await belljar.admin.usage({ limit: 200 })).some((one) => one.user_id === "ann"));

  const before = await belljar.admin.quota("ann");
  const quota = { ...before, concurrent_runs: 3 };
  assert.equal((await belljar.admin.setQuota("ann", quota)).concurrent_runs, 3);
  assert.equal((await belljar.admin.quota("ann")).concurrent_runs, 3);
  await belljar.admin.deleteQuota("ann");
  assert.deepEqual(await belljar.admin.quota("ann"), before);

  await ann.run(["true"], { idempotencyKey: "a key of ann's" });
  const keys = await belljar.admin.idempotency({ endpoint: "runs", userId: "ann", limit: 200 });
  assert.ok(keys.some(({ key }) => key === "a key of ann's"));

  assert.deepEqual((await belljar.admin.approvals({ state: "pending", userId: "ann" })).items, []);
  await assert.rejects(belljar.admin.decide(run.id, { decision: "approve" }), NotFoundError);
  await assert.rejects(ann.admin.decide(run.id, { decision: "approve" }), ForbiddenError);

  await belljar.tokens.revoke(made.id);
  await assert.rejects(ann.me(), UnauthorizedError);
});

test("secrets are stored, used and removed", async () => {
  const value = "correct horse battery";
  const stored = await belljar.secrets.set("TYPESCRIPT", { value });
  assert.deepEqual([stored.name, "value" in stored], ["TYPESCRIPT", false]);
  assert.deepEqual((await belljar.secrets.list()).map(({ name }) => name), ["TYPESCRIPT"]);
  const run = await belljar.run({ command: ["sh", "-c", "cmp /run/secrets/[AB] && cat /run/secrets/A"], secrets: { A: { from: "TYPESCRIPT" }, B: { value } } });
  assert.equal(run.stdout, "*".repeat(value.length));
  await assert.rejects(belljar.run({ command: ["true"], secrets: { A: { value: "short" } } }), InvalidRequestError);
  await belljar.secrets.set("TYPESCRIPT", { value, shared: true });
  await belljar.secrets.remove("TYPESCRIPT", { shared: true });
  await belljar.secrets.remove("TYPESCRIPT");
  assert.deepEqual(await belljar.secrets.list(), []);
});

test("snapshots are made, restored, read, copied, exported and imported", async () => {
  const session = await belljar.sessions.create();
  await session.write("file", "text");
  const made = await session.snapshot({ name: "typescript" });
  assert.deepEqual([made.name, made.files, made.bytes], ["typescript", 1, 4]);
  assert.deepEqual((await belljar.snapshots.list()).items.map(({ name }) => name), ["typescript"]);
  assert.equal((await belljar.snapshots.get(made.snapshot_id)).digest, made.digest);
  const restored = await belljar.sessions.create({ snapshot: made.snapshot_id });
  for (const copy of [restored, ...(await restored.fork(2))]) {
    assert.equal(Buffer.from(await copy.read("file")).toString(), "text");
    await copy.destroy();
  }
  const run = await belljar.run({ command: ["cat", "/snapshot/file"], snapshot: made.snapshot_id });
  assert.equal(run.stdout, "text");
  const archive = await (await belljar.snapshots.export(made.snapshot_id)).bytes();
  const again = await belljar.snapshots.import(archive, { name: "again" });
  assert.equal(again.digest, made.digest);
  for (const { snapshot_id } of [made, again]) await belljar.snapshots.remove(snapshot_id);
  await assert.rejects(belljar.snapshots.get(made.snapshot_id), NotFoundError);
  await session.destroy();
});

test("a template has files and environment for runs and sessions", async () => {
  const made = await belljar.templates.build({ name: "ts", base_image: "host", env: { WHO: "you" }, run: ["echo hello >greeting"] });
  assert.equal(made.reason, "new");
  const run = await belljar.run({ template: "ts", command: ["sh", "-c", "cat greeting; echo $WHO"] });
  assert.equal(run.stdout, "hello\nyou\n");
  const session = await belljar.sessions.create({ template: "ts" });
  await session.destroy();
  assert.ok((await belljar.templates.list()).some((t) => t.name === "ts"));
  assert.equal((await belljar.templates.get("ts")).digest, made.digest);
  await belljar.templates.remove("ts");
  await assert.rejects(belljar.templates.remove("ts", { shared: true }), NotFoundError);
});

test("volumes are asked for where the server allows none", async () => {
  assert.deepEqual(await belljar.volumes.list(), []);
  await assert.rejects(belljar.volumes.get("none"), NotFoundError);
  await assert.rejects(belljar.volumes.remove("none"), NotFoundError);
  await assert.rejects(belljar.volumes.create({ name: "data", mb: 64 }), PolicyDeniedError);
  await assert.rejects(belljar.sessions.create({ workspace: { volume: "data", mb: 64 } }), PolicyDeniedError);
});

test("images are imported, tagged, removed and pruned", async () => {
  const archive = tarOf("etc/made-by", "typescript");
  const told: ImageProgress[] = [];
  const image = await belljar.images.import(archive, { name: "ts-sdk:1", onProgress: (progress) => void told.push(progress) });
  assert.ok(image.ref.endsWith("ts-sdk:1"));
  assert.deepEqual(told.at(-1), { phase: "done", done: "typescript".length, total: "typescript".length });
  const again = await belljar.images.import(new Blob([archive as BlobPart]).stream(), { name: "ts-sdk:2" });
  assert.equal(again.digest, image.digest);
  await belljar.images.tag("ts-sdk:1", "ts-sdk:3");
  assert.equal((await belljar.images.get("ts-sdk:3")).digest, image.digest);
  await belljar.images.remove("ts-sdk:3");
  await assert.rejects(belljar.images.get("ts-sdk:3"), NotFoundError);
  await assert.rejects(belljar.images.prune({}), InvalidRequestError);
  assert.ok((await belljar.images.prune({ all: true })).images.includes(image.digest));
  await assert.rejects(belljar.images.import("no archive", { name: "x:1" }), ImageInvalidError);
});

// tarOf returns a tar archive of one file.
function tarOf(name: string, content: string): Uint8Array {
  const header = Buffer.alloc(512);
  header.write(name, 0);
  header.write("0000644\0" + "0000000\0".repeat(2), 100);
  header.write(content.length.toString(8).padStart(11, "0") + "\0" + "0".repeat(11) + "\0", 124);
  header.write("        0", 148);
  header.write("ustar\x0000", 257);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(sum.toString(8).padStart(6, "0") + "\0 ", 148);
  const padding = Buffer.alloc(1024 + ((512 - (content.length % 512)) % 512));
  return Buffer.concat([header, Buffer.from(content), padding]);
}

test("a request waits for an operator", async (t) => {
  const strict = await serve(t, { set: ["approval=timeout_sec>600"] });
  const operator = client(t, strict.url, { apiKey: strict.apiKey });
  const { secret } = await operator.tokens.create({ user_id: "ann" });
  const ann = client(t, strict.url, { apiKey: secret! });
  const pending = async (): Promise<Approval> => {
    for (;;) {
      const [first] = (await operator.admin.approvals({ state: "pending" })).items;
      if (first) return first;
    }
  };
  const opening = ann.sessions.create({ timeout_sec: 900 });
  const asked = await pending();
  assert.deepEqual([asked.kind, asked.user_id, asked.reasons], ["session", "ann", ["timeout_sec>600: 900"]]);
  assert.equal((await operator.admin.decide(asked.id, { decision: "approve" })).state, "approved");
  const session = await opening;
  assert.equal(session.id, asked.id);
  assert.equal((await session.run(["echo", "in"])).stdout, "in\n");
  await assert.rejects(operator.admin.decide(asked.id, { decision: "deny" }), ConflictError);

  const denied = assert.rejects(ann.sessions.create({ timeout_sec: 900 }), PolicyDeniedError);
  await operator.admin.decide((await pending()).id, { decision: "deny", note: "one is enough" });
  await denied;
  const run = ann.run({ command: ["true"], timeout_sec: 900 });
  await operator.admin.decide((await pending()).id, { decision: "deny", note: "not today" });
  assert.equal((await run).reason, "policy_denied");
  await session[Symbol.asyncDispose]();
});

test("a session that was approved and hibernates is opened", async (t) => {
  const server = await fake(t, (_, response) => json(response, 200, { session_id: "s1", state: "hibernated", created: false, approval: { state: "approved" } }));
  assert.equal((await client(t, server.url).sessions.open({ scope: { namespace: "workflow", id: "1" } })).created, false);
});
