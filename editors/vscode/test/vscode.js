// A stand-in of the module `vscode`, as far as the extension and vscode-languageclient use it: a
// workspace of real files, documents with texts, and what an extension registers.
//
// What is asked for and is not here fails by its name, instead of being undefined.

"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { pathToFileURL, fileURLToPath } = require("node:url");

class Disposable {
  constructor(dispose) { this.dispose = dispose ?? (() => {}); }
}

class EventEmitter {
  constructor() {
    this.heard = new Set();
    this.event = (listener, self, disposables) => {
      const bound = self === undefined ? listener : listener.bind(self);
      this.heard.add(bound);
      const one = new Disposable(() => this.heard.delete(bound));
      disposables?.push(one);
      return one;
    };
  }
  fire(value) { return Promise.all([...this.heard].map((one) => one(value))); }
  dispose() { this.heard.clear(); }
}

class Uri {
  constructor(url) { this.url = new URL(url); this.scheme = this.url.protocol.slice(0, -1); }
  static parse(text) { return new Uri(text); }
  static file(name) { return new Uri(pathToFileURL(name).href); }
  get fsPath() { return fileURLToPath(this.url); }
  get path() { return decodeURIComponent(this.url.pathname); }
  toString() { return this.url.href; }
}

class Position {
  constructor(line, character) { this.line = line; this.character = character; }
}

class Range {
  constructor(start, end, line, character) {
    const isPair = typeof start === "object";
    this.start = isPair ? start : new Position(start, end);
    this.end = isPair ? end : new Position(line, character);
  }
}

class Diagnostic {
  constructor(range, message, severity) { Object.assign(this, { range, message, severity }); }
}

class CodeAction {
  constructor(title, kind) { this.title = title; this.kind = kind; }
}

class CodeActionKind {
  constructor(value) { this.value = value; }
  append(part) { return new CodeActionKind(this.value ? `${this.value}.${part}` : part); }
}
CodeActionKind.Empty = new CodeActionKind("");
for (const [name, value] of Object.entries({
  QuickFix: "quickfix", Refactor: "refactor", RefactorExtract: "refactor.extract",
  RefactorInline: "refactor.inline", RefactorRewrite: "refactor.rewrite", Source: "source",
  SourceOrganizeImports: "source.organizeImports",
})) CodeActionKind[name] = new CodeActionKind(value);

class WorkspaceEdit {
  constructor() { this.changes = []; }
  set(uri, edits) { this.changes.push({ uri, edits }); }
  replace(uri, range, newText) { this.set(uri, [{ range, newText }]); }
  insert(uri, at, newText) { this.set(uri, [{ range: new Range(at, at), newText }]); }
  delete(uri, range) { this.set(uri, [{ range, newText: "" }]); }
  deleteFile(uri) { this.changes.push({ uri, deleted: true }); }
}

class Hover { constructor(contents, range) { this.contents = contents; this.range = range; } }
class MarkdownString {
  constructor(value) { this.value = value ?? ""; }
  appendText(value) { this.value += value; return this; }
  appendCodeblock(value) { this.value += value; return this; }
}
class Location { constructor(uri, range) { this.uri = uri; this.range = range; } }
class TextEdit { constructor(range, newText) { this.range = range; this.newText = newText; } }
class RelativePattern {
  constructor(base, pattern) { this.baseUri = base.uri ?? base; this.pattern = pattern; }
}

class Document {
  constructor(file) {
    this.uri = Uri.file(file);
    this.fileName = file;
    this.languageId = file.endsWith(".py") ? "python" : "plaintext";
    this.version = 1;
    this.isDirty = false;
    this.text = fs.readFileSync(file, "utf8");
  }
  getText() { return this.text; }
}

const events = Object.fromEntries([
  "onDidOpenTextDocument", "onDidChangeTextDocument", "onDidCloseTextDocument",
  "onDidSaveTextDocument", "onWillSaveTextDocument", "onDidChangeConfiguration",
  "onDidChangeWorkspaceFolders", "onDidCreateFiles", "onDidRenameFiles", "onDidDeleteFiles",
  "onWillCreateFiles", "onWillRenameFiles", "onWillDeleteFiles", "onDidGrantWorkspaceTrust",
  "onDidOpenNotebookDocument", "onDidChangeNotebookDocument", "onDidSaveNotebookDocument",
  "onDidCloseNotebookDocument",
].map((name) => [name, new EventEmitter()]));

// What a test looks at, and what it sets.
const seen = {
  settings: {}, messages: [], output: [], commands: {}, providers: {}, watchers: [], marks: new Map(),
};

function read(section, name) {
  const manifest = require("../package.json").contributes.configuration.properties;
  const key = `${section}.${name}`;
  return seen.settings[name] ?? manifest[key]?.default;
}

const workspace = {
  ...Object.fromEntries(Object.entries(events).map(([name, one]) => [name, one.event])),
  workspaceFolders: undefined,
  textDocuments: [],
  notebookDocuments: [],
  isTrusted: true,
  getConfiguration(section) {
    const all = require("../package.json").contributes.configuration.properties;
    const names = Object.keys(all).map((one) => one.slice("deltafix.".length));
    const ours = Object.fromEntries(names.map((name) => [name, read("deltafix", name)]));
    const held = section === undefined ? { deltafix: ours } : section === "deltafix" ? ours : {};
    return { ...held, get: (name) => held[name] };
  },
  getWorkspaceFolder: (uri) =>
    workspace.workspaceFolders?.find((one) => uri.fsPath.startsWith(one.uri.fsPath)),
  createFileSystemWatcher(pattern) {
    const [created, changed, deleted] = [new EventEmitter(), new EventEmitter(), new EventEmitter()];
    const watcher = {
      pattern, created, changed, deleted, onDidCreate: created.event, onDidChange: changed.event,
      onDidDelete: deleted.event, dispose() {},
    };
    seen.watchers.push(watcher);
    return watcher;
  },
  asRelativePath: (uri) => path.relative(workspace.workspaceFolders[0].uri.fsPath, uri.fsPath),
};

function matches(selector, document) {
  const filters = Array.isArray(selector) ? selector : [selector];
  return filters.some((one) =>
    (one.scheme === undefined || one.scheme === document.uri.scheme)
    && (one.language === undefined || one.language === document.languageId)
    && (one.pattern === undefined || path.matchesGlob === undefined
      ? one.pattern === undefined : path.matchesGlob(document.fileName, one.pattern)),
  ) ? 1 : 0;
}

function provider(name) {
  return (selector, given) => {
    seen.providers[name] = given;
    return new Disposable(() => { if (seen.providers[name] === given) delete seen.providers[name]; });
  };
}

const languages = {
  match: matches,
  createDiagnosticCollection: (name) => ({
    name,
    set: (uri, marks) => seen.marks.set(uri.fsPath, marks),
    delete: (uri) => seen.marks.delete(uri.fsPath),
    clear: () => seen.marks.clear(),
    forEach: () => {},
    has: (uri) => seen.marks.has(uri.fsPath),
    dispose: () => seen.marks.clear(),
  }),
  registerHoverProvider: provider("hover"),
  registerDefinitionProvider: provider("definition"),
  registerReferenceProvider: provider("references"),
  registerCodeActionsProvider: provider("actions"),
};

function message(text) { seen.messages.push(text); return Promise.resolve(undefined); }

const window = {
  activeTextEditor: undefined,
  visibleTextEditors: [],
  tabGroups: { all: [], onDidChangeTabs: new EventEmitter().event, onDidChangeTabGroups: new EventEmitter().event },
  onDidChangeActiveTextEditor: new EventEmitter().event,
  onDidChangeVisibleTextEditors: new EventEmitter().event,
  showErrorMessage: message,
  showInformationMessage: message,
  showWarningMessage: message,
  createOutputChannel: (name) => ({
    name,
    append: (text) => seen.output.push(text),
    appendLine: (text) => seen.output.push(text),
    show() {}, clear() {}, dispose() {},
  }),
};

const commands = {
  registerCommand(name, run) {
    seen.commands[name] = run;
    return new Disposable(() => { if (seen.commands[name] === run) delete seen.commands[name]; });
  },
};

const enums = {
  DiagnosticSeverity: { Error: 0, Warning: 1, Information: 2, Hint: 3 },
  DiagnosticTag: { Unnecessary: 1, Deprecated: 2 },
  CodeActionTriggerKind: { Invoke: 1, Automatic: 2 },
  TextDocumentSaveReason: { Manual: 1, AfterDelay: 2, FocusOut: 3 },
  FileType: { Unknown: 0, File: 1, Directory: 2 },
  ProgressLocation: { SourceControl: 1, Window: 10, Notification: 15 },
};

const classes = {
  Disposable, EventEmitter, Uri, Position, Range, Diagnostic, CodeAction, CodeActionKind,
  WorkspaceEdit, Hover, MarkdownString, Location, TextEdit, RelativePattern,
};

// Classes that vscode-languageclient derives from, for features that this server has not.
for (const name of [
  "CompletionItem", "CodeLens", "DocumentLink", "InlayHint", "SymbolInformation",
  "CallHierarchyItem", "TypeHierarchyItem", "CancellationError",
]) classes[name] = class {};

class CancellationTokenSource {
  constructor() { this.token = { isCancellationRequested: false, onCancellationRequested: new EventEmitter().event }; }
  cancel() {}
  dispose() {}
}

const api = {
  ...classes, ...enums, CancellationTokenSource, workspace, languages, window, commands,
  version: "1.90.0", env: { language: "en", appName: "test" },
};

function known(name, part) {
  return new Proxy(part, {
    get(target, key) {
      if (key in target || typeof key === "symbol") return target[key];
      throw new Error(`the stand-in has no ${name}.${key}`);
    },
  });
}

for (const name of ["workspace", "languages", "window", "commands"]) api[name] = known(name, api[name]);

module.exports = { api: known("vscode", api), seen, events, Document, Uri, Position, Range };
