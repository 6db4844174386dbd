// Runs the tests that `npm run pretest` has built, in two processes. Arguments select tests by name:
// `npm test -- shell`.
import { spawn } from "node:child_process";
import { readdirSync, statSync, writeFileSync } from "node:fs";

const wanted = process.argv.slice(2);
const files = readdirSync("build/test").filter((name) => /^(?!half-).*\.test\.js$/.test(name) && (wanted.length === 0 || wanted.some((part) => name.includes(part))));
if (files.length === 0) throw new Error(`no tests: ${wanted.join(" ") || "none are built"}`);
const sized = files.map((name) => ({ name, size: statSync(`build/test/${name}`).size })).sort((a, b) => b.size - a.size);
const halves = [[], []];
sized.forEach(({ name }, i) => halves[Math.floor((i + 1) / 2) % 2].push(name)); // 0, 1, 1, 0, 0, ...
const entries = halves.filter((names) => names.length > 0).map((names, i) => {
  const entry = `build/test/half-${i + 1}.test.js`;
  writeFileSync(entry, names.map((name) => `import "./${name}";\n`).join(""));
  return entry;
});
const bound = Number(process.versions.node.split(".")[0]) < 20 ? [] : ["--test-timeout=1800000"]; // for a whole process; node 18 has no such option
const runner = spawn(process.execPath, ["--test", "--test-concurrency=2", ...bound, ...entries], { stdio: "inherit" });
runner.on("exit", (code) => (process.exitCode = code ?? 1));
