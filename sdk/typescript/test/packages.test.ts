// Packages that are installed for a program, and presets, from an index that the test serves.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { Belljar, InvalidRequestError, PolicyDeniedError } from "belljar-sdk";
import { atEnd, serve, tempDir, type Owner } from "./world.js";

const wheelName = "greeter-1.0-py3-none-any.whl";

/** wheel returns a Python package whose greeter prints a line. */
function wheel(t: Owner): Buffer {
  const file = join(tempDir(t), wheelName);
  const make = `
import sys, zipfile
info = "greeter-1.0.dist-info/"
with zipfile.ZipFile(sys.argv[1], "w") as z:
    z.writestr("greeter.py", "print('hello from a package')\\n")
    z.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: greeter\\nVersion: 1.0\\n")
    z.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    z.writestr(info + "RECORD", "")
`;
  execFileSync("/usr/bin/python3", ["-c", make, file]);
  return readFileSync(file);
}

/** index serves the package as packages.test, and returns the server settings that use it. */
async function index(t: Owner): Promise<string[]> {
  const body = wheel(t);
  const web = createServer((request, response) => {
    if (request.url!.endsWith(".whl")) return void response.end(body);
    const found = { "/pip/": `<a href="/pip/greeter/">greeter</a>`, "/pip/greeter/": `<a href="/files/${wheelName}">${wheelName}</a>` }[request.url!];
    response.writeHead(found ? 200 : 404, { "Content-Type": "text/html" }).end(`<!DOCTYPE html>${found ?? ""}`);
  });
  atEnd(t, () => web.close());
  await once(web.listen(0, "127.0.0.1"), "listening");
  const names = createSocket("udp4");
  atEnd(t, () => names.close());
  names.on("message", (query, from) => {
    const end = query.indexOf(0, 12) + 5; // end of the DNS question
    const isA = query.readUInt16BE(end - 4) === 1;
    const head = Buffer.from([query[0]!, query[1]!, 0x81, 0x80, 0, 1, 0, isA ? 1 : 0, 0, 0, 0, 0]);
    const address = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);
    names.send(Buffer.concat([head, query.subarray(12, end), ...(isA ? [address] : [])]), from.port, from.address);
  });
  names.bind(0, "127.0.0.1");
  await once(names, "listening");
  const { port } = web.address() as AddressInfo;
  return [
    "egress_presets=pip", `package_mirrors=pip=http://packages.test:${port}/pip`, `egress_ports=${port}`,
    `egress_resolver=127.0.0.1:${names.address().port}`, "egress_allow=127.0.0.1", "egress_private=true",
  ];
}

test("packages and presets of runs and sessions", async (t) => {
  const server = await serve(t, { set: await index(t) });
  const belljar = new Belljar({ baseUrl: server.url, apiKey: server.apiKey });
  atEnd(t, () => belljar.close());
  const program = { base_image: "host", command: ["python3", "-c", "import greeter"] };
  const run = await belljar.run({ ...program, packages: { pip: ["greeter"] } });
  assert.equal(run.stdout, "hello from a package\n", run.message ?? "");
  const [locked] = run.run.packages?.pip ?? [];
  assert.deepEqual([locked?.name, locked?.version, locked?.hash?.startsWith("sha256:")], ["greeter", "1.0", true]);
  const session = await belljar.sessions.create({ base_image: "host", packages: { pip: ["greeter"] } });
  atEnd(t, () => session.destroy());
  assert.equal((await session.run(program.command)).stdout, "hello from a package\n");

  const own = await belljar.run({
    base_image: "host", network_policy: "allowlist", egress: { presets: ["pip"] },
    command: ["sh", "-c", "/usr/bin/python3 -m pip install -q greeter && /usr/bin/python3 -c 'import greeter'"],
  });
  assert.equal(own.stdout, "hello from a package\n", own.stderr);
  assert.deepEqual(own.run.egress?.presets?.map((p) => [p.name, p.source, p.hosts]), [["pip", "mirror", ["packages.test"]]]);
  const presets = await belljar.networkPresets();
  assert.deepEqual(presets.filter((p) => p.enabled).map((p) => [p.name, p.source, p.hosts]), [["pip", "mirror", ["packages.test"]]]);
  assert.ok(presets.some((p) => p.name === "npm" && p.reason && p.hint));
  await assert.rejects(belljar.run({ ...program, packages: { npm: ["left-pad"] } }), PolicyDeniedError);
  await assert.rejects(belljar.run({ ...program, packages: { pip: ["a;b"] } }), InvalidRequestError);
});
