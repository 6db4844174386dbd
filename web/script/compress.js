// Writes FILE.gz next to every file of dist that becomes smaller by it: the same bytes wherever it runs.
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const dist = process.argv[2] ?? new URL("../dist", import.meta.url).pathname;

for (const name of readdirSync(dist, { recursive: true })) {
  const path = join(dist, name);
  if (!statSync(path).isFile() || name === "index.html") continue; // the server writes into index.html
  const plain = readFileSync(path);
  const packed = gzipSync(plain, { level: 9 });
  packed[9] = 255; // the system that compressed it: unknown
  if (packed.length < plain.length * 0.95) writeFileSync(path + ".gz", packed);
  else rmSync(path + ".gz", { force: true });
}
