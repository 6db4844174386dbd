// Runs the tests: those of test/unit in Node alone, those of test/browser in two Chromiums against one server. Arguments select tests
// by name: `npm test -- runs`. The program is bin/belljar, unless BELLJAR_BIN names another.
import { existsSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { built, compile, node, stage } from "./stage.js";

const wanted = process.argv.slice(2);
compile();
const found = ["unit", "browser"].flatMap((folder) => (existsSync(`${built}/${folder}`) ? readdirSync(`${built}/${folder}`).map((name) => `${folder}/${name}`) : []));
let files = found.filter((name) => name.endsWith(".test.js") && (wanted.length === 0 || wanted.some((part) => name.includes(part))));
if (files.length === 0) throw new Error(`no tests: ${wanted.join(" ") || "none are built"}`);

const inBrowser = (name) => name.startsWith("browser/");
const { program } = await import(`../${built}/browser/stage.js`);
// As root on Debian, make test has installed Chromium, so its absence is a failure. Ubuntu has no such package.
const debian = existsSync("/etc/os-release") && /^ID=["']?debian["']?$/m.test(readFileSync("/etc/os-release", "utf8"));
if (files.some(inBrowser) && !existsSync(program) && !(debian && process.getuid?.() === 0)) {
  console.log(`skipped: what needs a browser, since ${program} is missing`);
  files = files.filter((name) => !inBrowser(name));
}

// Two processes, each with one Chromium for many files.
const halves = [{ size: 0, names: [] }, { size: 0, names: [] }];
const sized = files.map((name) => ({ name, size: statSync(`${built}/${name}`).size })).sort((a, b) => b.size - a.size);
for (const { name, size } of sized) {
  const half = halves[0].size <= halves[1].size ? halves[0] : halves[1];
  half.size += size;
  half.names.push(name);
}
const entries = halves.filter(({ names }) => names.length > 0).map(({ names }, i) => {
  const entry = `${built}/half-${i + 1}.test.js`;
  writeFileSync(entry, names.map((name) => `import "./${name}";\n`).join(""));
  return entry;
});
const run = () => node("--test", "--test-reporter=spec", "--test-concurrency=2", "--test-timeout=1800000", ...entries);
process.exitCode = files.some(inBrowser) ? await stage(run, false) : await run();
