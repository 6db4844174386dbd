// Runs the unit tests of test/unit: what is in src without a component, translated to JavaScript, by the test runner of node.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const web = fileURLToPath(new URL("..", import.meta.url));
const out = join(web, "node_modules/.unit");
rmSync(out, { recursive: true, force: true });
const tests = [];
for (const folder of ["src", "test/unit"]) {
  for (const name of readdirSync(join(web, folder), { recursive: true })) {
    if (!name.endsWith(".ts") || name.endsWith(".svelte.ts")) continue;
    const to = join(out, folder, name.replace(/\.ts$/, ".js"));
    const { outputText } = ts.transpileModule(readFileSync(join(web, folder, name), "utf8"), {
      fileName: name,
      compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, verbatimModuleSyntax: true, rewriteRelativeImportExtensions: true, inlineSourceMap: true },
    });
    mkdirSync(dirname(to), { recursive: true });
    writeFileSync(to, outputText);
    if (name.endsWith(".test.ts")) tests.push(to);
  }
}
const { status } = spawnSync(process.execPath, ["--enable-source-maps", "--test", ...tests], { stdio: "inherit" });
process.exit(status ?? 1);
