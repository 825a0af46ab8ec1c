// deltafix in Visual Studio Code: it starts `deltafix lsp` and hands it the settings.
//
// Marks, hovers, uses and quick fixes are the server's. Here are the two commands, and what is told
// where the server cannot be started. Settings go to the running server; another program, or other
// arguments, are another server.

"use strict";

const path = require("node:path");
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

const SECTION = "deltafix";
const OF_THE_PROCESS = ["path", "arguments"];
const OF_THE_ANALYSIS = ["confidence", "also", "roots", "framework", "exclude", "tests"];

let client; // the running one, if any
let output; // what the server logs, and answers of "show why"
let starting = Promise.resolve(); // starts and stops follow each other

function settings() {
  const given = vscode.workspace.getConfiguration(SECTION);
  return Object.fromEntries(OF_THE_ANALYSIS.map((name) => [name, given.get(name)]));
}

// A path with a separator starts at the workspace's folder; a bare name is looked up on PATH.
function program(folder) {
  const name = vscode.workspace.getConfiguration(SECTION).get("path") || "deltafix";
  const isPath = /[\\/]/.test(name) && !path.isAbsolute(name);
  return isPath && folder ? path.join(folder, name) : name;
}

function made() {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  const command = program(folder);
  const more = vscode.workspace.getConfiguration(SECTION).get("arguments") ?? [];
  const server = { command, args: ["lsp", ...more], options: { cwd: folder } };
  return new LanguageClient(SECTION, "deltafix", server, {
    documentSelector: [
      { scheme: "file", language: "python" },
      { scheme: "file", pattern: "**/*.dl" },
    ],
    initializationOptions: settings(),
    synchronize: { configurationSection: SECTION },
    outputChannel: output,
  });
}

function start() {
  starting = starting.then(async () => {
    client = made();
    try {
      await client.start();
    } catch (error) {
      client = undefined;
      const more = "install it (pip install deltafix), or say where it is in deltafix.path";
      vscode.window.showErrorMessage(`deltafix: ${error?.message ?? error}; ${more}`);
    }
  });
  return starting;
}

function stop() {
  starting = starting.then(async () => {
    const running = client;
    client = undefined;
    await running?.dispose();
  });
  return starting;
}

async function restart() {
  await stop();
  await start();
}

async function showWhy() {
  const editor = vscode.window.activeTextEditor;
  if (client === undefined || editor === undefined) {
    vscode.window.showInformationMessage("deltafix is not running, or no editor is open");
    return undefined;
  }
  const found = await client.sendRequest("textDocument/hover", {
    textDocument: { uri: client.code2ProtocolConverter.asUri(editor.document.uri) },
    position: client.code2ProtocolConverter.asPosition(editor.selection.active),
  });
  const said = found?.contents.value;
  if (said === undefined) {
    vscode.window.showInformationMessage("No symbol of this folder's Python is under the cursor");
    return undefined;
  }
  output.appendLine(said);
  output.show(true);
  return said;
}

async function activate(context) {
  output = vscode.window.createOutputChannel("deltafix");
  context.subscriptions.push(
    output,
    vscode.commands.registerCommand("deltafix.restart", restart),
    vscode.commands.registerCommand("deltafix.showWhy", showWhy),
    vscode.workspace.onDidChangeConfiguration((event) => {
      const isOther = OF_THE_PROCESS.some((name) => event.affectsConfiguration(`${SECTION}.${name}`));
      return isOther ? restart() : undefined;
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
