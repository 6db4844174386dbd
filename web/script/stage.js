// The environment of scripts that use a browser: compiled TypeScript, a server, and a Chromium.
import { spawn, spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
process.env["BELLJAR_BIN"] ??= fileURLToPath(new URL("../../bin/belljar", import.meta.url));

/** The compiler's output folder for test/. */
export const built = "build/web/test";

/** compile compiles test/, without type checks: npm run check does them. */
export function compile() {
  rmSync("build", { recursive: true, force: true });
  const { status } = spawnSync("node_modules/.bin/tsc", ["-p", "test/tsconfig.json", "--noCheck"], { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}

/** stage starts a server, and a Chromium unless `browser` is false. It runs `act` with their environment, and ends them afterwards. */
export async function stage(act, browser = true) {
  const ends = [];
  try {
    const { open } = await import(`../${built}/browser/stage.js`);
    Object.assign(process.env, await open({ after: (end) => ends.push(end) }, browser));
    return await act();
  } finally {
    for (const end of ends) await end();
  }
}

/** node runs a program with Node to its end and returns its exit status. */
export function node(...command) {
  return new Promise((resolve) => spawn(process.execPath, command, { stdio: "inherit" }).on("exit", (code) => resolve(code ?? 1)));
}
