// Stands in the bundle for what the language client loads and does not use here: the check of VS Code's version, which the manifest has, and
// file operations and notebooks, which belljar lsp does not ask for.
module.exports = () => true; // semver's functions
module.exports.Minimatch = class {
  constructor() {
    throw new Error("file operations are not in this bundle");
  }
};
module.exports.NotebookDocumentSyncFeature = class {
  fillClientCapabilities() {}
  initialize() {}
  getState() {
    return { kind: "static" };
  }
  clear() {}
};
