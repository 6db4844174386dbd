// This package's own WebSocket, against correct and incorrect servers.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket as Stream } from "node:net";
import { test, type TestContext } from "node:test";
import { dial } from "../src/node/websocket.js";
import { Refused, type Closed, type Socket } from "../src/socket.js";
import { atEnd, until, within } from "./world.js";
import { frame } from "./wire.js";

const never = new AbortController().signal;

interface Peer {
  stream: Stream;
  head: string;
  /** The client's frames, unmasked. */
  got: { opcode: number; payload: Buffer }[];
  ended: boolean;
}

/** peer is a server that accepts the handshake, correctly by default, and then follows its script. */
async function peer(t: TestContext, answer?: (key: string) => string): Promise<{ url: string; met: Promise<Peer> }> {
  let meet: (p: Peer) => void;
  const met = new Promise<Peer>((resolve) => (meet = resolve));
  const server = createServer((stream) => {
    stream.on("error", () => {});
    atEnd(t, () => stream.destroy());
    const p: Peer = { stream, head: "", got: [], ended: false };
    let rest: Buffer = Buffer.alloc(0);
    stream.on("close", () => (p.ended = true));
    stream.on("data", (data: Buffer) => {
      rest = Buffer.concat([rest, data]);
      if (p.head === "") {
        const end = rest.indexOf("\r\n\r\n");
        if (end < 0) return;
        p.head = rest.subarray(0, end).toString();
        rest = rest.subarray(end + 4);
        const key = /sec-websocket-key: (.*)/i.exec(p.head)?.[1] ?? "";
        stream.write(answer ? answer(key) : upgrade(key), "latin1");
        meet(p);
      }
      rest = unmask(rest, p.got);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  atEnd(t, () => server.close());
  return { url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}/a?b=c`, met };
}

function upgrade(key: string, more = ""): string {
  const accept = createHash("sha1").update(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest("base64");
  return `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n${more}\r\n`;
}

// unmask parses the client's messages and returns the remaining bytes.
function unmask(data: Buffer, into: Peer["got"]): Buffer {
  for (;;) {
    if (data.length < 6) return data;
    const short = data[1]! & 127;
    const start = short < 126 ? 2 : short === 126 ? 4 : 10;
    if (data.length < start + 4) return data;
    const n = start === 2 ? short : start === 4 ? data.readUInt16BE(2) : Number(data.readBigUInt64BE(2));
    if (data.length < start + 4 + n) return data;
    assert.equal(data[1]! & 0x80, 0x80, "a client masks");
    const mask = data.subarray(start, start + 4);
    into.push({ opcode: data[0]! & 15, payload: Buffer.from(data.subarray(start + 4, start + 4 + n).map((b, i) => b ^ mask[i & 3]!)) });
    data = data.subarray(start + 4 + n);
  }
}

async function connected(t: TestContext): Promise<{ socket: Socket; peer: Peer }> {
  const { url, met } = await peer(t);
  const socket = await within("the handshake", dial()(url, { "X-API-KEY": "k" }, never));
  atEnd(t, () => socket.cut());
  return { socket, peer: await met };
}

async function closed(socket: Socket): Promise<Closed> {
  for (;;) {
    const got = await within("the end", socket.receive());
    if (got.kind === "closed") return got;
  }
}

test("headers and path are sent, messages go both ways", async (t) => {
  const { socket, peer } = await connected(t);
  assert.match(peer.head, /^GET \/a\?b=c HTTP\/1.1/);
  assert.match(peer.head, /x-api-key: k/i);
  assert.doesNotMatch(peer.head, /sec-websocket-extensions/i);
  peer.stream.write(Buffer.concat([frame(0x81, "grüße"), frame(0x82, Buffer.from([0, 255]))]));
  assert.deepEqual(await socket.receive(), { kind: "text", data: "grüße" });
  const binary = await socket.receive();
  assert.ok(binary.kind === "binary" && Buffer.from(binary.data).equals(Buffer.from([0, 255])));
  await socket.send("hällo");
  await socket.send(Buffer.alloc(200_000, 9));
  await until("the messages", () => peer.got.length === 2);
  assert.deepEqual([peer.got[0]!.opcode, peer.got[0]!.payload.toString()], [1, "hällo"]);
  assert.deepEqual([peer.got[1]!.opcode, peer.got[1]!.payload.length, peer.got[1]!.payload[199_999]], [2, 200_000, 9]);
});

test("what comes with the handshake's answer is not lost", async (t) => {
  const { url } = await peer(t, (key) => upgrade(key) + frame(0x81, "at once").toString("latin1"));
  const socket = await dial()(url, {}, never);
  atEnd(t, () => socket.cut());
  assert.deepEqual(await within("a message", socket.receive()), { kind: "text", data: "at once" });
});

test("fragments make one message, and pings between them are answered", async (t) => {
  const { socket, peer } = await connected(t);
  const euro = Buffer.from("€");
  for (const piece of [frame(0x01, euro.subarray(0, 1)), frame(0x89, "are you there"), frame(0x00, euro.subarray(1, 2)), frame(0x8a, "unasked"), frame(0x80, euro.subarray(2))]) {
    peer.stream.write(piece);
  }
  assert.deepEqual(await within("the message", socket.receive()), { kind: "text", data: "€" });
  await until("the pong", () => peer.got.length === 1);
  assert.deepEqual([peer.got[0]!.opcode, peer.got[0]!.payload.toString()], [10, "are you there"]);
});

test("the server's close is answered and reported after what came before", async (t) => {
  const { socket, peer } = await connected(t);
  peer.stream.write(Buffer.concat([frame(0x81, "last"), frame(0x88, Buffer.concat([Buffer.from([4010 >> 8, 4010 & 255]), Buffer.from("replaced")]))]));
  assert.deepEqual(await within("the message", socket.receive()), { kind: "text", data: "last" });
  assert.deepEqual(await closed(socket), { kind: "closed", code: 4010, reason: "replaced" });
  assert.deepEqual(await closed(socket), { kind: "closed", code: 4010, reason: "replaced" });
  await until("the goodbye", () => peer.got.length === 1);
  assert.deepEqual([peer.got[0]!.opcode, peer.got[0]!.payload.readUInt16BE(0)], [8, 4010]);
  await assert.rejects(socket.send("too late"));
  await until("the connection's end", () => peer.ended);
});

test("a close without a code is one", async (t) => {
  const { socket, peer } = await connected(t);
  peer.stream.write(frame(0x88, ""));
  assert.deepEqual(await closed(socket), { kind: "closed", code: 1005, reason: "" });
});

test("our close waits for the answer, and not for ever", async (t) => {
  const { socket, peer } = await connected(t);
  peer.stream.write(frame(0x81, "unread"));
  const closing = socket.close();
  await until("the close", () => peer.got.some((m) => m.opcode === 8));
  peer.stream.write(frame(0x88, Buffer.from([3, 232])));
  peer.stream.end();
  await within("the goodbye", closing);

  const deaf = await connected(t); // never answers
  await within("the goodbye to the deaf", deaf.socket.close());
  await until("the cut", () => deaf.peer.ended);
});

test("a server that breaks the protocol gets a close code and is left", async (t) => {
  for (const [what, code, bytes] of [
    ["masked", 1002, Buffer.from([0x81, 0x80, 1, 2, 3, 4])],
    ["text that is none", 1007, frame(0x81, Buffer.from([0xff, 0xfe]))],
    ["text cut in a character", 1007, frame(0x81, Buffer.from([0xe2, 0x82]))],
    ["too long", 1009, frame(0x82, "", 1 << 30)],
    ["a close of one byte", 1002, frame(0x88, Buffer.from([3]))],
    ["a close with a code that never is sent", 1002, frame(0x88, Buffer.from([3, 238]))],
    ["a close whose reason is no text", 1007, frame(0x88, Buffer.from([3, 232, 255]))],
  ] as [string, number, Buffer][]) {
    const { socket, peer } = await connected(t);
    peer.stream.write(bytes);
    assert.equal((await closed(socket)).code, 1006, what);
    await until(`the end after ${what}`, () => peer.ended);
    assert.deepEqual(peer.got.map((m) => [m.opcode, m.payload.readUInt16BE(0)]), [[8, code]], what);
  }
});

test("a connection that breaks is the end, wherever it breaks", async (t) => {
  for (const bytes of [Buffer.alloc(0), Buffer.from([0x81]), Buffer.from([0x81, 100, 65]), frame(0x01, "half")]) {
    const { socket, peer } = await connected(t);
    peer.stream.write(bytes, () => peer.stream.destroy());
    assert.equal((await closed(socket)).code, 1006);
    await assert.rejects(socket.send("x"));
  }
  const { socket, peer } = await connected(t);
  peer.stream.write(frame(0x81, "whole"), () => peer.stream.resetAndDestroy());
  const got = await within("the message or the end", socket.receive());
  if (got.kind !== "closed") assert.equal((await closed(socket)).code, 1006);
});

test("a handshake that is none fails", async (t) => {
  for (const [answer, words] of [
    [() => "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", /handshake/],
    [() => upgrade("another key"), /handshake/],
    [(key: string) => upgrade(key).replace("Upgrade: websocket", "Upgrade: something"), /something other/],
    [(key: string) => upgrade(key, "Sec-WebSocket-Extensions: permessage-deflate\r\n"), /not offered/],
    [() => "HTTP/1.1 1", /./],
    [() => "no http at all\r\n\r\n", /./],
  ] as [(key: string) => string, RegExp][]) {
    const { url, met } = await peer(t, answer);
    void met.then((p) => p.stream.end());
    await assert.rejects(within("the handshake", dial()(url, {}, never)), words);
  }
});

test("an answer in place of the handshake is reported", async (t) => {
  const { url } = await peer(t, () => "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nX-Request-Id: r1\r\n\r\nno");
  const error = await dial()(url, {}, never).then(() => assert.fail("no"), (e: unknown) => e);
  assert.ok(error instanceof Refused);
  assert.deepEqual([error.answer.status, error.answer.header("x-request-id")], [403, "r1"]);
  const pieces: string[] = [];
  for await (const piece of error.answer.chunks()) pieces.push(String(piece));
  assert.equal(pieces.join(""), "no");
});

test("a handshake can be given up", async (t) => {
  const { url, met } = await peer(t, () => "");
  const stop = new AbortController();
  const dialing = dial()(url, {}, stop.signal);
  const p = await met;
  stop.abort();
  await assert.rejects(within("the handshake", dialing));
  await until("the connection's end", () => p.ended);
  await assert.rejects(dial()(url, {}, AbortSignal.abort()));
});

test("who does not read holds the server up, and not all in memory", async (t) => {
  const { socket, peer } = await connected(t);
  const piece = frame(0x82, Buffer.alloc(64 << 10));
  let sent = 0;
  let full = false;
  // The kernel's buffers on both sides hold some megabytes; beyond that the server must wait.
  while (!full && sent < 64 << 20) {
    if (!peer.stream.write(piece)) full = !(await Promise.race([once(peer.stream, "drain").then(() => true), new Promise((r) => setTimeout(r, 500))]));
    sent += piece.length;
  }
  assert.ok(full, "the server could send 64 MiB to one who does not read");
  let got = 0;
  while (got < sent) {
    const m = await within("a message", socket.receive());
    assert.ok(m.kind === "binary");
    got += m.data.length + 10;
  }
  assert.equal(got, sent);
});
