// Runs the tests that `npm run pretest` has built. Arguments name some of them: `npm test -- shell`.
import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";

const wanted = process.argv.slice(2);
const files = readdirSync("build/test")
  .filter((name) => name.endsWith(".test.js") && (wanted.length === 0 || wanted.some((part) => name.includes(part))))
  .map((name) => `build/test/${name}`);
const bound = Number(process.versions.node.split(".")[0]) < 20 ? [] : ["--test-timeout=900000"]; // node 18 has none
const runner = spawn(process.execPath, ["--test", "--test-concurrency=2", ...bound, ...files], { stdio: "inherit" });
runner.on("exit", (code) => (process.exitCode = code ?? 1));
