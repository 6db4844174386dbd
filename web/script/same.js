// Fails if dist differs from a build of the source.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));

/** Returns the files of a folder by name, decompressed, because other versions of Node may compress them to different bytes. */
function filesOf(folder) {
  const names = readdirSync(folder, { recursive: true }).filter((name) => statSync(join(folder, name)).isFile());
  return new Map(names.sort().map((name) => [name, name.endsWith(".gz") ? gunzipSync(readFileSync(join(folder, name))) : readFileSync(join(folder, name))]));
}

function run(...command) {
  const { status, error } = spawnSync(process.execPath, command, { stdio: "inherit" });
  if (status !== 0) throw error ?? new Error(`${command.join(" ")} has failed`);
}

const fresh = mkdtempSync(join(tmpdir(), "bj-web-"));
try {
  // A larger semi-space for young objects: fewer garbage collections.
  run("--max-semi-space-size=64", "node_modules/vite/bin/vite.js", "build", "--logLevel", "error", "--outDir", fresh, "--emptyOutDir");
  run("script/compress.js", fresh);
  const [is, should] = [filesOf("dist"), filesOf(fresh)];
  const other = [...new Set([...is.keys(), ...should.keys()])].filter((name) => !is.get(name)?.equals(should.get(name) ?? Buffer.alloc(0)));
  if (other.length > 0) {
    console.error(`web/dist is not what the source builds: make web, and commit it. These differ: ${other.join(", ")}`);
    process.exitCode = 1;
  }
} finally {
  rmSync(fresh, { recursive: true, force: true });
}
