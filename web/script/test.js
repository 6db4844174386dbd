// Runs the tests: those of test/unit in Node alone, those of test/browser in one Chromium against one server. Arguments name some of
// them: `npm test -- runs`. The program is bin/belljar, unless BELLJAR_BIN names another.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
const built = "build/web/test";
const wanted = process.argv.slice(2);

rmSync("build", { recursive: true, force: true });
// npm run check looks at the types.
const compiled = spawnSync("node_modules/.bin/tsc", ["-p", "test/tsconfig.json", "--noCheck"], { stdio: "inherit" });
if (compiled.status !== 0) process.exit(compiled.status ?? 1);

const found = ["unit", "browser"].flatMap((folder) => (existsSync(`${built}/${folder}`) ? readdirSync(`${built}/${folder}`).map((name) => `${folder}/${name}`) : []));
let files = found.filter((name) => name.endsWith(".test.js") && (wanted.length === 0 || wanted.some((part) => name.includes(part))));
if (files.length === 0) throw new Error(`no tests: ${wanted.join(" ") || "none are built"}`);

/** What ends with this program. */
const ends = [];
const owner = { after: (end) => ends.push(end) };
process.env["BELLJAR_BIN"] ??= fileURLToPath(new URL("../../bin/belljar", import.meta.url));
let status = 1;
try {
  if (files.some((name) => name.startsWith("browser/"))) {
    const { open, program } = await import(`../${built}/browser/stage.js`);
    if (existsSync(program) || process.getuid?.() === 0) {
      Object.assign(process.env, await open(owner));
    } else {
      console.log(`skipped: what needs a browser, since ${program} is missing`);
      files = files.filter((name) => !name.startsWith("browser/"));
    }
  }
  const runner = spawn(process.execPath, ["--test", "--test-reporter=spec", "--test-concurrency=2", "--test-timeout=300000", ...files.map((name) => `${built}/${name}`)], { stdio: "inherit" });
  status = await new Promise((resolve) => runner.on("exit", (code) => resolve(code ?? 1)));
} finally {
  for (const end of ends) await end();
}
process.exitCode = status;
