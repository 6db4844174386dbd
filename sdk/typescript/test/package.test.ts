// The published package: packed, installed into an empty project, its README's code run there and its types checked.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { after, test } from "node:test";
import { binary, limitMs, serve, tempDir } from "./world.js";

function run(what: string, args: string[], cwd: string, env: Record<string, string> = {}): string {
  const { status, stdout, stderr } = spawnSync(what, args, { cwd, encoding: "utf8", timeout: 2 * limitMs, env: { ...process.env, ...env } });
  assert.equal(status, 0, `${what} ${args.join(" ")}\n${stdout}\n${stderr}`);
  return stdout;
}

const compiler = resolve("node_modules/@typescript/native/bin/tsc");

type Installed = { project: string; packed: string[] };

// The package in an empty project, for all tests.
const shared = tempDir({ after });
let installed: Installed | undefined;

/** install packs the package and installs it into an empty project, once. Each test adds files under its own names. */
function install(): Installed {
  return (installed ??= installInto(shared));
}

function installInto(dir: string): Installed {
  const [{ filename, files }] = JSON.parse(run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", dir], ".")) as [
    { filename: string; files: { path: string }[] },
  ];
  const project = join(dir, "project");
  mkdirSync(project);
  writeFileSync(join(project, "package.json"), '{"name": "empty", "private": true, "type": "module"}');
  run("npm", ["install", "--offline", "--no-audit", "--no-fund", `belljar@file:${join(dir, filename)}`], project); // as in the README
  return { project, packed: files.map((f) => f.path) };
}

/** blocks returns the README's blocks of TypeScript. */
function blocks(): string[] {
  return [...readFileSync("README.md", "utf8").matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map((m) => m[1]!);
}

// Separates the output of two programs.
const between = "-- the next program --";

// Code that precedes blocks which use a variable from outside.
const local = 'import { Belljar } from "belljar";\nconst belljar = await Belljar.local();\n';

function program(block: string): string {
  if (block.includes("EventSource")) {
    return block.replace('"https://belljar.example", token: jwtOfTheUser', "process.env.URL!, apiKey: process.env.KEY")
      .replace("key: jwtOfTheUser", "key: process.env.KEY!")
      .replace("const url", 'const { id } = await belljar.run(["true"]);\nconst url')
      .replace("const events = new EventSource(url);", 'if ((await fetch(url)).status !== 200) throw new Error("no");') + "await belljar.close();\n";
  }
  if (block.includes("SandboxClient")) return "const baseUrl = process.env.URL!, apiKey = process.env.KEY!;\n" + block;
  if (block.includes("http://127.0.0.1:8080")) {
    return 'import { Belljar } from "belljar";\n' + block.replace('"http://127.0.0.1:8080"', "process.env.URL!") + "console.log((await belljar.me()).role);\nawait belljar.close();\n";
  }
  if (block.includes("Belljar.local()")) return block;
  return local + block + "await belljar.close();\n";
}

test("it holds what it should, and nothing else", () => {
  const { project, packed } = install();
  assert.ok(packed.includes("dist/index.js") && packed.includes("dist/index.d.ts") && packed.includes("README.md") && packed.includes("LICENSE"));
  assert.deepEqual(packed.filter((path) => !/^(dist\/.*\.(js|d\.ts)|README\.md|LICENSE|package\.json)$/.test(path)), []);
  const manifest = JSON.parse(readFileSync(join(project, "node_modules/belljar/package.json"), "utf8")) as Record<string, unknown>;
  assert.equal(manifest["dependencies"], undefined);
  assert.deepEqual(readdirSync(join(project, "node_modules")).filter((name) => !name.startsWith(".")), ["belljar"]);
  assert.match(run(process.execPath, ["node_modules/publint/src/cli.js", "run", "--strict", "--level", "warning", join(project, "node_modules/belljar")], "."), /All good/i);
});

test("only what node has is loaded on demand", () => {
  const outside = ["dist", "dist/browser"].flatMap((dir) => readdirSync(dir).filter((f) => f.endsWith(".js")).map((f) => join(dir, f)));
  for (const file of outside) {
    const imports = [...readFileSync(file, "utf8").matchAll(/(?:^import[^;]*from|^export[^;]*from|import\()\s*"([^"]+)"/gm)].map((m) => m[1]!);
    assert.deepEqual(imports.filter((name) => name.startsWith("node:") || (name.includes("/node/") && file !== "dist/platform.js")), [], file);
  }
});

test("the README's lines run in an empty project, and their types are right", async (t) => {
  const { project } = install();
  const server = await serve(t);
  const programs = blocks().map(program);
  assert.ok(programs.length >= 12);
  symlinkSync(resolve("node_modules/@types"), join(project, "node_modules/@types"));
  symlinkSync(resolve("node_modules/undici-types"), join(project, "node_modules/undici-types"));
  mkdirSync(join(project, "src"));
  programs.forEach((text, i) => writeFileSync(join(project, "src", `readme${i}.ts`), text));
  const options = {
    compilerOptions: { strict: true, target: "ES2022", module: "NodeNext", rootDir: "src", outDir: "out", types: ["node"], lib: ["ES2022"], skipLibCheck: false },
    include: ["src"],
  };
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify(options));
  run(process.execPath, [compiler, "-p", project], ".");
  const env = { BELLJAR_BIN: binary, URL: server.url, KEY: server.apiKey };
  // One process runs all programs. Each closes its belljar, so the process can exit.
  writeFileSync(join(project, "all.js"), `for (let i = 0; i < ${programs.length}; i++) {\n  await import(\`./out/readme\${i}.js\`);\n  console.log(${JSON.stringify(between)});\n}\n`);
  const printed = run(process.execPath, ["all.js"], project, env).split(`${between}\n`);
  assert.equal(printed.pop(), "");
  assert.equal(printed.length, programs.length);
  assert.equal(printed[0], "42\n\n");
  assert.equal(printed[1], "exit status 0\nanswer\n\nexit status 0\n42\n\n");
  assert.match(printed.join(""), /exit status 0\n/);
});

test("old ways to resolve modules find the types", () => {
  const { project } = install();
  writeFileSync(join(project, "a.ts"), 'import { Belljar } from "belljar";\nconst b: Belljar = new Belljar({ baseUrl: "http://x" });\nexport default b;\n');
  for (const [module, moduleResolution] of [["ESNext", "Bundler"], ["NodeNext", "NodeNext"]]) {
    const skipLibCheck = moduleResolution !== "Bundler"; // check the types themselves only once
    const lib = ["ES2022", "DOM", "DOM.AsyncIterable"];
    const compilerOptions = { noEmit: true, strict: true, target: "ES2022", module, moduleResolution, lib, types: [], skipLibCheck };
    writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["a.ts"] }));
    run(process.execPath, [compiler, "-p", project], ".");
  }
  const find = 'const ts = require("typescript"); const options = { moduleResolution: ts.ModuleResolutionKind.Node10 };' +
    'console.log(ts.resolveModuleName("belljar", process.argv[1], options, ts.sys).resolvedModule?.resolvedFileName);'; // TypeScript 7 no longer has Node10
  assert.match(run(process.execPath, ["-e", find, join(project, "a.ts")], "."), /belljar\/dist\/index\.d\.ts\n$/);
});
