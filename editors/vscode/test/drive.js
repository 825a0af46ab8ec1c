// The extension in a stand-in of Visual Studio Code: a line of JSON asks, a line of JSON answers.
//
// It is the extension's own code, with its own vscode-languageclient, and a real server.

"use strict";

const Module = require("node:module");
const { createInterface } = require("node:readline");
const { api, seen, events, Document, Uri, Position, Range } = require("./vscode.js");

const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? api : load(name, ...rest));
const extension = require("../extension.js");

const token = new api.CancellationTokenSource().token;
const documents = new Map();

function document(file) {
  if (!documents.has(file)) {
    documents.set(file, new Document(file));
    api.workspace.textDocuments.push(documents.get(file));
  }
  return documents.get(file);
}

function plain(place) {
  return { file: place.uri.fsPath, line: place.range.start.line, character: place.range.start.character };
}

const asked = {
  async activate({ folder, settings }) {
    seen.settings = settings;
    api.workspace.workspaceFolders = [{ uri: Uri.file(folder), name: "it", index: 0 }];
    await extension.activate({ subscriptions: [] });
    return Object.keys(seen.commands);
  },
  async open({ file }) { await events.onDidOpenTextDocument.fire(document(file)); },
  // One change of text, as typing is.
  async type({ file, line, character, text }) {
    const one = document(file);
    const lines = one.text.split("\n");
    lines[line] = lines[line].slice(0, character) + text + lines[line].slice(character);
    one.text = lines.join("\n");
    one.version += 1;
    one.isDirty = true;
    const range = new Range(line, character, line, character);
    await events.onDidChangeTextDocument.fire({
      document: one, contentChanges: [{ range, rangeLength: 0, rangeOffset: 0, text }],
    });
  },
  async save({ file }) {
    const one = document(file);
    require("node:fs").writeFileSync(file, one.text);
    one.isDirty = false;
    await events.onDidSaveTextDocument.fire(one);
  },
  async changed({ file }) {
    for (const one of seen.watchers) await one.changed.fire(Uri.file(file));
    return seen.watchers.map((one) => one.pattern);
  },
  marks() {
    return [...seen.marks].flatMap(([file, marks]) => marks.map((one) => ({
      file, message: one.message, severity: one.severity, tags: one.tags,
      range: [one.range.start.line, one.range.start.character, one.range.end.line, one.range.end.character],
    })));
  },
  async hover({ file, line, character }) {
    const found = await seen.providers.hover.provideHover(document(file), new Position(line, character), token);
    return found?.contents.value;
  },
  async definition({ file, line, character }) {
    const at = new Position(line, character);
    return (await seen.providers.definition.provideDefinition(document(file), at, token)).map(plain);
  },
  async references({ file, line, character }) {
    const at = new Position(line, character);
    const context = { includeDeclaration: false };
    return (await seen.providers.references.provideReferences(document(file), at, context, token)).map(plain);
  },
  async actions({ file, line }) {
    const range = new Range(line, 0, line, 0);
    const diagnostics = (seen.marks.get(file) ?? []).filter((one) => one.range.start.line === line);
    const context = { diagnostics, triggerKind: 1, only: undefined };
    const provider = seen.providers.actions;
    const found = await provider.provideCodeActions(document(file), range, context, token);
    const answers = [];
    for (const one of found) {
      const { title, edit, diagnostics: of } = await provider.resolveCodeAction(one, token);
      const changes = edit.changes.map(({ uri, deleted, edits }) => ({
        file: uri.fsPath, deleted: deleted === true,
        edits: (edits ?? []).map((each) => {
          const { range: where, newText } = Array.isArray(each) ? each[0] : each;
          return [where.start.line, where.start.character, where.end.line, where.end.character, newText];
        }),
      }));
      answers.push({ title, changes, of: of?.length });
    }
    return answers;
  },
  async command({ name, file, line, character }) {
    if (file !== undefined) {
      api.window.activeTextEditor = {
        document: document(file), selection: { active: new Position(line, character) },
      };
    }
    return await seen.commands[name]();
  },
  async configure({ settings }) {
    const changed = Object.keys({ ...seen.settings, ...settings })
      .filter((name) => JSON.stringify(seen.settings[name]) !== JSON.stringify(settings[name]))
      .map((name) => `deltafix.${name}`);
    seen.settings = settings;
    const affectsConfiguration = (name) => changed.some((one) => one === name || one.startsWith(`${name}.`));
    await events.onDidChangeConfiguration.fire({ affectsConfiguration });
  },
  messages: () => seen.messages,
  output: () => seen.output,
};

(async () => {
  for await (const line of createInterface({ input: process.stdin })) {
    const { op, ...given } = JSON.parse(line);
    let answer;
    try {
      answer = { answer: (await asked[op](given)) ?? null };
    } catch (error) {
      answer = { error: error.stack };
    }
    console.log(JSON.stringify(answer));
  }
  await extension.deactivate();
  process.exit(0);
})();
