// A fake editor: the part of the module vscode that the extension and its language client use, over plain objects. Any other
// name is an event that never fires, a provider that is never called, or an empty class.
"use strict";
const { pathToFileURL, fileURLToPath } = require("node:url");
const { basename } = require("node:path");

class Disposable {
  constructor(does) { this.does = does; }
  dispose() { this.does?.(); }
  static from(...list) { return new Disposable(() => list.forEach((d) => d.dispose())); }
}

class EventEmitter {
  constructor() {
    this.listeners = new Set();
    this.event = (listener, self, disposables) => {
      const bound = self ? listener.bind(self) : listener;
      this.listeners.add(bound);
      const d = new Disposable(() => this.listeners.delete(bound));
      disposables?.push(d);
      return d;
    };
  }
  fire(value) { return [...this.listeners].map((listener) => listener(value)); }
  dispose() { this.listeners.clear(); }
}

class CancellationTokenSource {
  constructor() {
    this.emitter = new EventEmitter();
    this.token = { isCancellationRequested: false, onCancellationRequested: this.emitter.event };
  }
  cancel() { this.token.isCancellationRequested = true; this.emitter.fire(); }
  dispose() {}
}

class Uri {
  constructor(text) { this.url = new URL(text); }
  static parse(text) { return new Uri(text); }
  static file(path) { return new Uri(pathToFileURL(path).href); }
  get scheme() { return this.url.protocol.slice(0, -1); }
  get authority() { return this.url.host; }
  get path() { return decodeURIComponent(this.url.pathname); }
  get fsPath() { return this.scheme === "file" ? fileURLToPath(this.url) : this.path; }
  get query() { return this.url.search; }
  get fragment() { return this.url.hash; }
  toString() { return this.url.href; }
}

class Position { constructor(line, character) { Object.assign(this, { line, character }); } }
class Range {
  constructor(a, b, c, d) { [this.start, this.end] = typeof a === "number" ? [new Position(a, b), new Position(c, d)] : [a, b]; }
}
class Location { constructor(uri, range) { Object.assign(this, { uri, range }); } }
class Diagnostic { constructor(range, message, severity) { Object.assign(this, { range, message, severity }); } }
class DiagnosticRelatedInformation { constructor(location, message) { Object.assign(this, { location, message }); } }
class CodeLens { constructor(range, command) { Object.assign(this, { range, command }); } }
class TreeItem { constructor(label) { this.label = label; } }
class ThemeIcon { constructor(id) { this.id = id; } }
ThemeIcon.File = new ThemeIcon("file");
class CodeActionKind {
  constructor(value) { this.value = value; }
  append(part) { return new CodeActionKind(this.value ? `${this.value}.${part}` : part); }
}
CodeActionKind.Empty = new CodeActionKind("");
for (const [name, value] of Object.entries({ QuickFix: "quickfix", Refactor: "refactor", RefactorExtract: "refactor.extract", RefactorInline: "refactor.inline", RefactorRewrite: "refactor.rewrite", Source: "source", SourceOrganizeImports: "source.organizeImports" })) {
  CodeActionKind[name] = new CodeActionKind(value);
}

/** An object that accepts any other member, too. */
const open = (known) => new Proxy(known, {
  get(target, name) {
    if (name in target || typeof name === "symbol") return target[name];
    if (/^on[A-Z]/.test(name)) return (target[name] = new EventEmitter().event);
    if (/^(register|create)/.test(name)) return () => new Disposable();
    return undefined;
  },
});

/** The state of the fake editor. */
const editor = {
  commands: new Map(), executed: [], settings: {}, folderSettings: {}, secrets: new Map(), diagnostics: new Map(), lensProviders: [], trees: new Map(), terminals: [], errors: [],
  opened: [], answers: {}, lines: [], refreshes: 0, changed: new EventEmitter(), state: new Map(), documents: [],
  events: Object.fromEntries(["open", "change", "close", "save", "configuration", "folders"].map((name) => [name, new EventEmitter()])),
};

const configuration = (section) => {
  const key = (name) => (section ? `${section}.${name}` : name);
  return {
    get: (name, otherwise) => editor.folderSettings[key(name)] ?? editor.settings[key(name)] ?? otherwise,
    inspect: (name) => ({ globalValue: editor.settings[key(name)], workspaceValue: editor.folderSettings[key(name)] }),
    has: () => false, update: async () => {},
  };
};

const workspace = open({
  isTrusted: true, workspaceFolders: [], textDocuments: editor.documents, notebookDocuments: [], getConfiguration: configuration,
  getWorkspaceFolder: (uri) => workspace.workspaceFolders.find((f) => uri.toString().startsWith(f.uri.toString())),
  onDidOpenTextDocument: editor.events.open.event, onDidChangeTextDocument: editor.events.change.event, onDidCloseTextDocument: editor.events.close.event,
  onDidSaveTextDocument: editor.events.save.event, onDidChangeConfiguration: editor.events.configuration.event, onDidChangeWorkspaceFolders: editor.events.folders.event,
  createFileSystemWatcher: () => open({ dispose() {} }), fs: {}, textDocument: undefined,
});

const window = open({
  activeTextEditor: undefined, visibleTextEditors: [], state: { focused: true }, tabGroups: { all: [], onDidChangeTabs: new EventEmitter().event, onDidChangeTabGroups: new EventEmitter().event },
  createOutputChannel: () => {
    const write = (...text) => { editor.lines.push(text.join(" ")); editor.changed.fire(); };
    return { name: "Belljar", logLevel: 3, onDidChangeLogLevel: new EventEmitter().event, append: write, appendLine: write, trace: write, debug: write, info: write, warn: write, error: write, show() {}, clear() {}, replace() {}, hide() {}, dispose() {} };
  },
  createStatusBarItem: () => (editor.status = { show() {}, hide() {}, dispose() {} }),
  createTerminal: (options) => {
    const t = { ...options, text: "", shown: 0, show() { if (!t.shown++) options.pty.open(); }, dispose() { t.disposed = true; } };
    options.pty.onDidWrite((text) => { t.text += text; editor.changed.fire(); });
    editor.terminals.push(t);
    return t;
  },
  registerTreeDataProvider: (name, provider) => { editor.trees.set(name, provider); return new Disposable(); },
  showInputBox: async (options) => editor.answers[options.title],
  showErrorMessage: async (message) => { editor.errors.push(message); editor.changed.fire(); return undefined; },
  showInformationMessage: async () => undefined, showWarningMessage: async () => undefined, showWorkspaceFolderPick: async () => workspace.workspaceFolders[0],
  withProgress: async (_, does) => does({ report() {} }, new CancellationTokenSource().token),
});

const languages = open({
  match: (selector, document) => (selector.some((s) => s.scheme === document.uri.scheme) ? 10 : 0),
  createDiagnosticCollection: () => ({
    set: (uri, list) => { editor.diagnostics.set(uri.toString(), list ?? []); editor.changed.fire(); },
    delete: (uri) => editor.diagnostics.delete(uri.toString()), has: () => false, get: (uri) => editor.diagnostics.get(uri.toString()),
    clear: () => editor.diagnostics.clear(), dispose: () => editor.diagnostics.clear(), forEach() {},
  }),
  registerCodeLensProvider: (_, provider) => {
    editor.lensProviders.push(provider);
    const d = provider.onDidChangeCodeLenses?.(() => { editor.refreshes++; editor.changed.fire(); });
    return new Disposable(() => { d?.dispose(); editor.lensProviders.splice(editor.lensProviders.indexOf(provider), 1); });
  },
});

const commands = open({
  registerCommand: (name, does) => {
    if (editor.commands.has(name)) throw new Error(`command '${name}' already exists`);
    editor.commands.set(name, does);
    return new Disposable(() => editor.commands.delete(name));
  },
  executeCommand: async (name, ...args) => { editor.executed.push([name, ...args]); return editor.commands.get(name)?.(...args); },
});

const known = {
  __esModule: true,
  version: "1.91.0", env: open({ language: "en", appName: "tests", openExternal: async (uri) => { editor.opened.push(uri.toString()); return true; } }), extensions: { all: [], getExtension: () => undefined },
  workspace, window, languages, commands, Disposable, EventEmitter, CancellationTokenSource, CancellationError: class extends Error {}, Uri, Position, Range, Selection: class extends Range {}, Location, Diagnostic,
  DiagnosticRelatedInformation, DiagnosticSeverity: { Error: 0, Warning: 1, Information: 2, Hint: 3 }, DiagnosticTag: { Unnecessary: 1, Deprecated: 2 }, CodeLens, TreeItem, ThemeIcon, CodeActionKind,
  StatusBarAlignment: { Left: 1, Right: 2 }, RelativePattern: class { constructor(base, pattern) { Object.assign(this, { base, pattern }); } }, ProgressLocation: { Window: 10, Notification: 15 }, LogLevel: { Info: 3, Trace: 1 },
  TextDocumentChangeReason: { Undo: 1, Redo: 2 }, editor, basename,
};
module.exports = new Proxy(known, {
  get(target, name) {
    if (name in target || typeof name === "symbol" || name === "default" || name === "then") return target[name];
    return (target[name] = class {});
  },
});

/** Opens a text as a document. */
editor.open = (path, languageId, text) => {
  const uri = Uri.file(path);
  const d = { uri, fileName: path, languageId, version: 1, isDirty: false, isClosed: false, isUntitled: false, eol: 1, text, getText: () => d.text, get lineCount() { return d.text.split("\n").length; } };
  editor.documents.push(d);
  window.activeTextEditor = { document: d };
  window.visibleTextEditors.push(window.activeTextEditor);
  editor.events.open.fire(d);
  return d;
};

/** Changes a setting, as a user does. */
editor.configure = (name, value) => {
  editor.settings[name] = value;
  editor.events.configuration.fire({ affectsConfiguration: (section) => name === section || name.startsWith(`${section}.`) });
};

/** Replaces a part of a line, as a user does by typing. */
editor.edit = async (d, line, from, to, text) => {
  const lines = d.text.split("\n");
  lines[line] = lines[line].slice(0, from) + text + lines[line].slice(to);
  d.text = lines.join("\n");
  d.version++;
  d.isDirty = true;
  await Promise.all(editor.events.change.fire({ document: d, reason: undefined, contentChanges: [{ range: new Range(line, from, line, to), rangeOffset: 0, rangeLength: to - from, text }] }));
};

/** Waits until a condition holds. Every event of the editor triggers a check. */
editor.until = (what, so) => new Promise((done, fail) => {
  const look = () => {
    const found = so();
    if (!found) return;
    clearInterval(again);
    clearTimeout(late);
    d.dispose();
    done(found);
  };
  const d = editor.changed.event(look);
  const again = setInterval(look, 20);
  const late = setTimeout(() => { clearInterval(again); fail(new Error(`never so: ${what}\n${editor.lines.join("\n")}\n${editor.errors.join("\n")}`)); }, 240_000);
  look();
});
