// Bundles the extension into dist/extension.js.
const { build } = require("esbuild");
const { statSync } = require("node:fs");
const { join } = require("node:path");

const most = 400_000; // maximum size in bytes
const unused = { name: "unused", setup: (b) => b.onResolve({ filter: /^(minimatch|semver\/functions\/.*|\.\/notebook)$/ }, () => ({ path: join(__dirname, "unused.js") })) };

build({
  entryPoints: ["src/extension.ts"], outfile: "dist/extension.js", bundle: true, minify: true, platform: "node", target: "node20", format: "cjs", external: ["vscode"],
  plugins: [unused], logLevel: "warning",
}).then(() => {
  const { size } = statSync("dist/extension.js");
  if (size > most) throw new Error(`the bundle has ${size} bytes, and may have ${most}`);
});
