// Compresses every file of a folder to FILE.gz and removes the original, except index.html, which the server edits. The output
// is the same on every system.
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const dist = process.argv[2] ?? new URL("../dist", import.meta.url).pathname;

for (const name of readdirSync(dist, { recursive: true })) {
  const path = join(dist, name);
  if (!statSync(path).isFile() || name === "index.html") continue;
  const packed = gzipSync(readFileSync(path), { level: 9 });
  packed[9] = 255; // the system that compressed it: unknown
  writeFileSync(path + ".gz", packed);
  rmSync(path);
}
