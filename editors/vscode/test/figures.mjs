// Measures the load time, start time and size of the extension: rows of a name, the measured value, and the budget.
import { statSync } from "node:fs";
import { createRequire, Module } from "node:module";

const require = createRequire(import.meta.url);
const vscode = require("./vscode.cjs");
const load = Module._load;
Module._load = function (name, ...rest) {
  return name === "vscode" ? vscode : load.call(this, name, ...rest);
};
const context = { subscriptions: [], secrets: { get: async () => undefined }, workspaceState: { get: (_, otherwise) => otherwise } };
vscode.editor.settings["tldw.sandbox.path"] = "/bin/true";
const begin = performance.now();
require("../dist/extension.js").activate(context);
const took = performance.now() - begin, { size } = statSync(new URL("../dist/extension.js", import.meta.url));
console.log(JSON.stringify([["activation of the extension for VS Code, with its load, ms", took, 50], ["its bundle, KB", size / 1000, 400]]));
process.exit(0);
