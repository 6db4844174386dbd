// Replaces parts of the language client that this extension does not use: the check of VS Code's version, which the manifest contains, and
// file operations and notebooks, which belljar lsp does not support.
module.exports = () => true; // for semver's functions
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
