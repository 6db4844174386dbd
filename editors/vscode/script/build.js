// Bundles the extension into dist/extension.js.
const { buildSync } = require("esbuild");
const { statSync } = require("node:fs");
buildSync({ entryPoints: ["src/extension.ts"], outfile: "dist/extension.js", bundle: true, minify: true, platform: "node", target: "node20", format: "cjs", external: ["vscode"], logLevel: "warning" });
const { size } = statSync("dist/extension.js");
if (size > 460_000) throw new Error(`the bundle has ${size} bytes, and may have 460,000`);
