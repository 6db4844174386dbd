// Runs the tests: those of test/unit in Node alone, those of test/browser in one Chromium against one server. Arguments name some of
// them: `npm test -- runs`. The program is bin/belljar, unless BELLJAR_BIN names another.
import { existsSync, readdirSync } from "node:fs";
import { built, compile, node, stage } from "./stage.js";

const wanted = process.argv.slice(2);
compile();
const found = ["unit", "browser"].flatMap((folder) => (existsSync(`${built}/${folder}`) ? readdirSync(`${built}/${folder}`).map((name) => `${folder}/${name}`) : []));
let files = found.filter((name) => name.endsWith(".test.js") && (wanted.length === 0 || wanted.some((part) => name.includes(part))));
if (files.length === 0) throw new Error(`no tests: ${wanted.join(" ") || "none are built"}`);

const inBrowser = (name) => name.startsWith("browser/");
const { program } = await import(`../${built}/browser/stage.js`);
if (files.some(inBrowser) && !existsSync(program) && process.getuid?.() !== 0) {
  console.log(`skipped: what needs a browser, since ${program} is missing`);
  files = files.filter((name) => !inBrowser(name));
}
const run = () => node("--test", "--test-reporter=spec", "--test-concurrency=2", "--test-timeout=900000", ...files.map((name) => `${built}/${name}`));
process.exitCode = files.some(inBrowser) ? await stage(run) : await run();
