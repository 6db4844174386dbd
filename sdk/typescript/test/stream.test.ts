// Logs that are followed over broken connections, from misbehaving servers, and by slow readers.
import assert from "node:assert/strict";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { BelljarError, InternalError, NotFoundError, type Frame, type Transport } from "belljar-sdk";
import { utf8 } from "../src/bytes.js";
import { breaking, client, failure, fake, json, local, serve, tempDir, until, within } from "./world.js";

/** A log of n lines, in the server's form. */
function log(n: number): string[] {
  const frames: object[] = [{ type: "event", event: "start", data: {}, seq: 1 }];
  for (let i = 2; i < n; i++) frames.push({ type: "stdout", encoding: "utf8", data: `line ${i}\n`, seq: i, brand_new: true });
  frames.push({ type: "event", event: "end", data: { phase: "completed" }, seq: n });
  return frames.map((f, i) => `id: ${i + 1}\nevent: x\ndata: ${JSON.stringify(f)}\n\n`);
}

function begin(response: ServerResponse): void {
  response.writeHead(200, { "Content-Type": "text/event-stream" });
}

function fromOf(path: string): number {
  return Number(new URL(path, "http://x").searchParams.get("from_seq"));
}

async function all(frames: AsyncIterable<Frame>): Promise<number[]> {
  const seqs: number[] = [];
  for await (const frame of frames) seqs.push(frame.seq);
  return seqs;
}

const count = (n: number): number[] => Array.from({ length: n }, (_, i) => i + 1);

test("10,000 lines arrive in order with a forced reconnect every 2,500", async (t) => {
  const server = await serve(t);
  const way = await breaking(t, server, 2500);
  const belljar = client(t, way.url, { apiKey: server.apiKey });
  const run = await belljar.runs.start(["sh", "-c", "i=0; while [ $i -lt 10000 ]; do echo line $i; i=$((i+1)); done"]);
  let next = 1;
  let text = "";
  await within("the log", (async () => {
    for await (const frame of belljar.runs.frames(run.id)) {
      assert.equal(frame.seq, next++);
      if (frame.type === "stdout") text += frame.text;
    }
  })());
  assert.equal(text, Array.from({ length: 10_000 }, (_, i) => `line ${i}\n`).join(""));
  // Usually 3; on a busy machine a frame has more lines, though never more than 64 KiB.
  assert.ok(way.cuts() >= 1, `${way.cuts()} breaks in ${next} frames`);
});

test("10,000 frames, each a line, with a break every 500, and half a frame at each", async (t) => {
  const lines = log(10_000);
  const server = await fake(t, (request, response) => {
    const from = fromOf(request.url!);
    begin(response);
    const upTo = from - 1 + 500;
    response.write(lines.slice(from - 1, upTo).join("") + (lines[upTo]?.slice(0, 30) ?? ""), () => response.destroy());
  });
  assert.deepEqual(await within("the log", all(client(t, server.url).runs.frames("r"))), count(10_000));
  assert.equal(server.asked.length, 20);
});

test("breaks at every byte lose nothing", async (t) => {
  const lines = log(5);
  const whole = lines.join("");
  for (let cut = 1; cut < whole.length; cut += 7) {
    const server = await fake(t, (request, response, times) => {
      begin(response);
      const rest = lines.slice(fromOf(request.url!) - 1).join("");
      if (times === 1) response.write(rest.slice(0, cut), () => response.destroy());
      else response.end(rest);
    });
    assert.deepEqual(await within("the log", all(client(t, server.url).runs.frames("r"))), count(5), `cut at ${cut}`);
  }
});

test("what comes twice, or of a server that says less than it should, is noticed", async (t) => {
  const lines = log(9);
  const twice = await fake(t, (_, response) => {
    begin(response);
    response.end([...lines.slice(0, 5), ...lines.slice(2, 7), ...lines].join(""));
  });
  assert.deepEqual(await all(client(t, twice.url).runs.frames("r")), count(9));

  // A gap that a retry closes.
  const gap = await fake(t, (request, response, times) => {
    begin(response);
    const rest = lines.slice(fromOf(request.url!) - 1);
    response.end((times === 1 ? [...rest.slice(0, 3), ...rest.slice(5)] : rest).join(""));
  });
  assert.deepEqual(await all(client(t, gap.url).runs.frames("r")), count(9));

  const hole = await fake(t, (request, response) => {
    begin(response);
    response.end(lines.filter((_, i) => i + 1 >= fromOf(request.url!) && i !== 4).join(""));
  });
  await assert.rejects(all(client(t, hole.url).runs.frames("r")), (e: unknown) => e instanceof InternalError && e.details["from_seq"] === 5);

  const told = await fake(t, (_, response) => {
    begin(response);
    const note = 'event: event\ndata: {"type":"event","event":"resume","data":{},"seq":6}\n\n';
    response.end(note + lines.slice(5).join(""));
  });
  assert.deepEqual(await all(client(t, told.url).runs.frames("r")), [6, 7, 8, 9]);
});

test("a stream that ends politely before the log does is taken up again", async (t) => {
  const lines = log(6);
  const server = await fake(t, (request, response, times) => {
    begin(response);
    response.end(lines.slice(fromOf(request.url!) - 1).slice(0, times === 1 ? 3 : 9).join(""));
  });
  assert.deepEqual(await all(client(t, server.url).runs.frames("r")), count(6));
  assert.deepEqual(server.asked.map((a) => fromOf(a.path)), [1, 4]);
});

test("types and fields of a newer server are passed on, and what is no log is an error", async (t) => {
  const newer = await fake(t, (_, response) => {
    begin(response);
    response.end('data: {"type":"metrics","seq":1,"x":1}\n\ndata: {"type":"event","event":"end","seq":2,"more":1}\n\n');
  });
  assert.deepEqual(await all(client(t, newer.url).runs.frames("r")), [1, 2]);

  for (const body of ["data: no json\n\n", "data: 5\n\n", 'data: {"seq":"1","type":"stdout"}\n\n', 'data: {"seq":1,"type":"stdout","encoding":"x","data":"y"}\n\n']) {
    const odd = await fake(t, (_, response) => {
      begin(response);
      response.end(body);
    });
    await assert.rejects(all(client(t, odd.url).runs.frames("r")), InternalError, body);
    assert.equal(odd.asked.length, 1, body);
  }
  const page = await fake(t, (_, response) => void response.writeHead(200, { "Content-Type": "text/html" }).end("<html>"));
  await assert.rejects(all(client(t, page.url).runs.frames("r")), InternalError);
  const over = await fake(t, (_, response) => void response.writeHead(204).end());
  assert.deepEqual(await all(client(t, over.url).runs.frames("r", { from: 10 })), []);
  const beyond = await fake(t, (_, response) => {
    begin(response);
    response.end('data: {"type":"event","event":"resume","seq":2}\n\ndata: {"type":"event","event":"end","seq":2}\n\n');
  });
  assert.deepEqual(await all(client(t, beyond.url).runs.frames("r", { from: 10 })), [2]);
  assert.equal(beyond.asked.length, 1);
});

test("refusals in the midst of it are waited out, and what will not change ends it", async (t) => {
  const lines = log(6);
  const server = await fake(t, (request, response, times) => {
    if (times === 2) return failure(response, 429, "rate_limited", { "Retry-After": "0" });
    if (times === 3) return failure(response, 503, "runtime_unavailable", { "Retry-After": "0" });
    begin(response);
    response.write(lines.slice(fromOf(request.url!) - 1).slice(0, times === 1 ? 3 : 9).join(""), () => response.destroy());
  });
  assert.deepEqual(await within("the log", all(client(t, server.url).runs.frames("r"))), count(6));

  const gone = await fake(t, (_, response, times) => {
    if (times > 1) return failure(response, 404, "not_found");
    begin(response);
    response.write(lines[0]!, () => response.destroy());
  });
  await assert.rejects(all(client(t, gone.url).runs.frames("r")), NotFoundError);

  const away = await fake(t, (_, response) => void response.destroy());
  await assert.rejects(all(client(t, away.url, { maxRetries: 2 }).runs.frames("r")), BelljarError);
  assert.equal(away.asked.length, 3);
});

test("the tail begins where the log stood, also over a break", async (t) => {
  const lines = log(9);
  const server = await fake(t, (request, response, times) => {
    if (!request.url!.includes("/logs")) return json(response, 200, { id: "r", phase: "running", last_seq: 5 });
    if (times === 2) return void response.destroy();
    begin(response);
    response.end(lines.slice(fromOf(request.url!) - 1).join(""));
  });
  assert.deepEqual(await all(client(t, server.url).runs.frames("r", { from: "tail" })), [6, 7, 8, 9]);
});

test("who leaves the loop leaves no connection", async (t) => {
  const server = await fake(t, (_, response) => {
    begin(response);
    response.write(log(3).slice(0, 2).join(""));
  });
  const belljar = client(t, server.url);
  for await (const frame of belljar.runs.frames("r")) if (frame.seq === 2) break;
  await until("the connection's end", () => server.sockets.size === 0);
  const stop = new AbortController();
  const reading = all(belljar.runs.frames("r", { signal: stop.signal })).catch((e: unknown) => e);
  await until("the second request", () => server.asked.length === 2);
  stop.abort();
  assert.equal(((await within("the end", reading)) as BelljarError).code, "canceled");
  await until("the connection's end", () => server.sockets.size === 0);
});

test("a log that has begun is reopened until its deadline, however often", async (t) => {
  const lines = log(4);
  let now = 0;
  t.mock.timers.enable({ apis: ["setTimeout"] });
  t.mock.method(performance, "now", () => now);
  const asked: number[] = [];
  let over = 250_000; // within ten times the patience
  const transport: Transport = {
    async send({ url }) {
      asked.push(now);
      if (asked.length > 1 && now < over) {
        setImmediate(() => { // the client pauses now
          now += 33_000;
          t.mock.timers.tick(33_000);
        });
        throw new Error("away");
      }
      const rest = lines.slice(fromOf(url) - 1).slice(0, asked.length === 1 ? 2 : 9);
      const chunks = async function* (): AsyncGenerator<Uint8Array> {
        yield utf8(rest.join(""));
        setImmediate(() => t.mock.timers.tick(1000)); // for the first pause
      };
      return { status: 200, header: () => "text/event-stream", chunks, discard() {} };
    },
    close() {},
  };
  const belljar = client(t, "http://belljar", { transport });
  assert.deepEqual(await all(belljar.runs.frames("r")), count(4));
  assert.ok(asked.length > 9, String(asked.length));
  asked.length = 0;
  over = Infinity;
  await assert.rejects(all(belljar.runs.frames("r")), /away/);
  assert.ok(asked.at(-1)! - asked[0]! <= 300_000 && asked.length > 9, String(asked));
  asked.length = 0;
  await assert.rejects(all(client(t, "http://belljar", { transport, maxRetries: 0 }).runs.frames("r")), BelljarError);
  assert.equal(asked.length, 1);
  await new Promise((resolve) => setImmediate(resolve));
});

test("silence in a stream is a break", async (t) => {
  const lines = log(4);
  const server = await fake(t, (request, response, times) => {
    begin(response);
    const rest = lines.slice(fromOf(request.url!) - 1);
    if (times === 1) response.write(rest[0]!);
    else response.end(rest.join(""));
  });
  assert.deepEqual(await within("the log", all(client(t, server.url, { silenceMs: 500 }).runs.frames("r"))), count(4));
});

test("a server that is killed in the midst and comes back goes on where it was", async (t) => {
  const data = tempDir(t);
  const listen = `unix:${join(tempDir(t, "/tmp"), "s")}`; // short: a socket's path has at most 107 bytes
  const first = await serve(t, { data, listen });
  const belljar = client(t, listen, { apiKey: first.apiKey, maxRetries: 10_000, patienceMs: 300_000 });
  const session = await belljar.sessions.create();
  const run = await session.start(["sh", "-c", "i=0; while [ $i -lt 400 ]; do echo line $i; i=$((i+1)); sleep 0.005; done"]);
  let text = "";
  let next = 1;
  let restarted: Promise<unknown> | undefined;
  await within("the log", (async () => {
    for await (const frame of belljar.runs.frames(run.id)) {
      assert.equal(frame.seq, next++);
      if (frame.type === "stdout") text += frame.text;
      if (text.length > 500) restarted ??= first.kill().then(() => serve(t, { data, listen }));
    }
  })(), 300_000);
  await restarted;
  assert.equal(text, Array.from({ length: 400 }, (_, i) => `line ${i}\n`).join(""));
});

test("huge output to a slow reader is bounded in memory, here and on the way", async (t) => {
  const piece = "x".repeat(40_000);
  const frames = 1500; // 60 MB
  let sent = 0;
  const server = await fake(t, async (_, response) => {
    begin(response);
    for (let seq = 1; seq <= frames && !response.destroyed; seq++) {
      const last = seq === frames;
      const data = last ? '{"type":"event","event":"end","data":{},"seq":' + seq + "}" : `{"type":"stdout","encoding":"utf8","data":"${piece}","seq":${seq}}`;
      sent = seq;
      if (!response.write(`data: ${data}\n\n`)) await Promise.race([once(response, "drain"), once(response, "close")]);
    }
    response.end();
  });
  const reading = client(t, server.url).runs.frames("r")[Symbol.asyncIterator]();
  await reading.next();
  // Nothing reads now, so the server can only fill the buffers on the way.
  let before = -1;
  for (let same = 0; same < 20; same = sent === before ? same + 1 : 0) {
    before = sent;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.ok(sent < frames / 2, `${sent} of ${frames} frames were taken for a reader who had one`);
  let got = 1;
  for (let step = await reading.next(); !step.done; step = await reading.next()) got++;
  assert.equal(got, frames);
});

test("output of all kinds and sizes comes through whole", async (t) => {
  const belljar = await local(t);
  const session = await belljar.sessions.create({ resources: { workspace_mb: 64 } });
  const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 31 + (i >> 7)) & 255));
  await session.write("bytes", bytes);
  const euros = "€🙂é".repeat(30_000);
  await session.write("text", euros);
  for (const [file, want] of [["bytes", bytes], ["text", Buffer.from(euros)]] as const) {
    const pieces: Uint8Array[] = [];
    let text = "";
    const result = await session.run(["cat", file], {
      onOutput: (frame) => {
        pieces.push(frame.data);
        text += frame.text;
      },
    });
    assert.ok(Buffer.concat(pieces).equals(want), file);
    assert.ok(Buffer.from(result.stdoutBytes).equals(want), file);
    if (file === "text") assert.equal(text, euros);
    const plain = await session.run(["cat", file]);
    assert.ok(Buffer.from(plain.stdoutBytes).equals(want), file);
  }
  const long = await session.run(["sh", "-c", "yes 0123456789abcde | head -c 3000000"]);
  assert.deepEqual([long.truncated, long.stdoutBytes.length], [true, 1 << 20]);
  const followed = await session.run(["sh", "-c", "yes 0123456789abcde | head -c 3000000"], { onOutput: () => {} });
  assert.equal(followed.stdout, long.stdout);
});
