import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import * as vscode from "vscode";
import { Logs } from "./log.js";
import { over, type ArtifactItem, type ArtifactList, type LogNote, type RunAnswer, type RunNote, type TruncatedNote } from "./protocol.js";
import { Server, type Listener } from "./server.js";
import { Settings } from "./settings.js";
import { ArtifactsView, RunsView, nameOf } from "./views.js";
import { words } from "./words.js";

const lastCommand = "belljar.lastCommand";
const lastSync = "belljar.lastSync";
const requestCancelled = -32800; // LSP's RequestCancelled

let app: App | undefined;

export function activate(context: vscode.ExtensionContext): void {
  app = new App(context);
  app.start();
}

export async function deactivate(): Promise<void> {
  await app?.server.stop();
  app = undefined;
}

type Arguments = Record<string, unknown>;

class App implements Listener {
  private readonly settings: Settings;
  private readonly output = vscode.window.createOutputChannel("Belljar", { log: true });
  private readonly status = vscode.window.createStatusBarItem(vscode.StatusBarAlignment.Left, 10);
  private readonly logs = new Logs();
  private readonly runs = new RunsView();
  private readonly artifacts: ArtifactsView;
  private readonly interactive = new Set<string>();
  private folder: Promise<string> | undefined; // for opened artifacts
  readonly server: Server;

  constructor(private readonly context: vscode.ExtensionContext) {
    this.settings = new Settings(context.secrets);
    this.server = new Server(this.settings, this.output, this);
    this.artifacts = new ArtifactsView((run_id) => this.server.command<ArtifactList>("tldw.sandbox.openArtifacts", { run_id }));
    this.status.command = "belljar.showLog";
  }

  start(): void {
    const commands: Record<string, (...args: never[]) => unknown> = {
      "tldw.sandbox.run": (args?: Arguments) => this.run(args),
      "tldw.sandbox.configure": () => this.configure(),
      "tldw.sandbox.openArtifacts": (run?: RunNote) => this.openArtifacts(run),
      "belljar.rerun": () => this.send({ rerun: true }),
      "belljar.runInTerminal": () => this.runInTerminal(),
      "belljar.cancel": (run?: RunNote) => this.server.command("belljar.sandbox.cancel", about(run ?? this.runs.last)),
      "belljar.openInWeb": (run?: RunNote) => this.openInWeb(run),
      "belljar.setApiKey": () => this.setApiKey(),
      "belljar.showLog": (run?: RunNote) => this.showLog(run),
      "belljar.openArtifact": (runId: string, artifact: ArtifactItem) => this.openArtifact(runId, artifact),
      // The server's diagnostics have actions that use these command names.
      "belljar.sandbox.openRun": (run: RunNote) => this.openInWeb(run),
    };
    for (const [name, does] of Object.entries(commands)) {
      this.context.subscriptions.push(vscode.commands.registerCommand(name, (...args: never[]) => this.guard(() => does(...args))));
    }
    this.context.subscriptions.push(
      this.output, this.status, this.logs,
      vscode.window.registerTreeDataProvider("belljar.runs", this.runs),
      vscode.window.registerTreeDataProvider("belljar.artifacts", this.artifacts),
      vscode.workspace.onDidChangeConfiguration((e) => {
        if (["serverUrl", "apiKey", "path"].some((name) => e.affectsConfiguration(`tldw.sandbox.${name}`))) void this.guard(() => this.server.restart());
      }),
    );
    void this.guard(() => this.server.start()); // the code lenses appear once the server runs
  }

  /** Shows an error instead of throwing it. */
  private async guard(does: () => unknown): Promise<unknown> {
    try {
      return await does();
    } catch (err) {
      if ((err as { code?: number }).code === requestCancelled) return undefined; // the user cancelled it
      const data = (err as { data?: { hint?: string; action?: { title: string; command: string } } }).data;
      const message = `Belljar: ${err instanceof Error ? err.message : String(err)}${data?.hint ? ` (${data.hint})` : ""}`;
      this.output.error(message);
      const chosen = await vscode.window.showErrorMessage(message, ...(data?.action ? [data.action.title] : []));
      if (chosen && data?.action) await vscode.commands.executeCommand(data.action.command);
      return undefined;
    }
  }

  /** Runs the command of a code lens; from the palette, a command that the user types. */
  private async run(args?: Arguments): Promise<unknown> {
    if (args && ["uri", "folder", "command", "rerun"].some((name) => name in args)) return this.send(args);
    const editor = vscode.window.activeTextEditor?.document.uri;
    const text = await vscode.window.showInputBox({
      title: "Run in Sandbox",
      prompt: editor ? `A command, as words or as a JSON array. Empty: ${basename(editor.path)}` : "A command, as words or as a JSON array. Empty: the folder's command",
      value: this.context.workspaceState.get(lastCommand, ""),
    });
    if (text === undefined) return undefined;
    await this.context.workspaceState.update(lastCommand, text);
    if (!text.trim() && editor) return this.send({ uri: editor.toString() });
    const folder = await this.pickFolder();
    return this.send({ ...(text.trim() ? { command: words(text) } : {}), ...(folder ? { folder: folder.uri.toString() } : {}) });
  }

  private async pickFolder(): Promise<vscode.WorkspaceFolder | undefined> {
    const at = vscode.window.activeTextEditor?.document.uri;
    const folders = vscode.workspace.workspaceFolders ?? [];
    return (at && vscode.workspace.getWorkspaceFolder(at)) ?? (folders.length > 1 ? vscode.window.showWorkspaceFolderPick() : folders[0]);
  }

  private async send(args: Arguments): Promise<RunAnswer | undefined> {
    if (!vscode.workspace.isTrusted) throw new Error("this folder is not trusted, so that nothing of it is sent to a sandbox. Trust it first");
    const at = (args.uri ?? args.folder) as string | undefined;
    const scope = at ? vscode.Uri.parse(at) : undefined;
    const sync = this.settings.sync(scope);
    const holder = scope ? vscode.workspace.getWorkspaceFolder(scope) : vscode.workspace.workspaceFolders?.[0];
    const given = `${lastSync} ${holder?.uri.toString()}`; // the server keeps its last value, even after the setting is removed
    if (holder && (sync || this.context.workspaceState.get(given, false))) {
      await this.server.command("tldw.sandbox.configure", { folder: holder.uri.toString(), sync: sync ?? { ignore: [], allow: [] } });
      await this.context.workspaceState.update(given, sync !== undefined);
    }
    const terms = args.rerun ? {} : this.settings.terms(scope);
    const answer = await this.server.command<RunAnswer>("tldw.sandbox.run", { ...terms, ...args });
    const interactive = Boolean(args.interactive || answer.interactive); // a rerun is as interactive as the run that it repeats
    if (interactive) this.interactive.add(answer.run_id);
    this.open({ ...answer, ...(args.uri ? { target: args.uri as string } : {}) });
    this.logs.show(answer.run_id, !interactive);
    return answer;
  }

  private runInTerminal(): Promise<RunAnswer | undefined> {
    const editor = vscode.window.activeTextEditor;
    if (!editor) throw new Error("open a program first");
    return this.send({ uri: editor.document.uri.toString(), interactive: true });
  }

  /** Opens the terminal of a run. Output may arrive before the answer with the run's id. */
  private open(run: RunNote): void {
    const id = { run_id: run.run_id };
    this.logs.begin(run.run_id, nameOf(run), {
      reads: () => this.interactive.has(run.run_id),
      input: (data, end) => void this.guard(() => this.server.command("belljar.sandbox.input", { ...id, data, end })),
      interrupt: () => void this.guard(() => this.server.command("belljar.sandbox.cancel", id)),
    });
  }

  onRun(note: RunNote): void {
    this.open(note);
    this.runs.note(note);
    const ended = over(note), name = nameOf(note);
    if (note.lost || (note.message && !ended)) this.status.text = `$(warning) ${name}: ${note.lost ? "lost" : "no connection"}`;
    else this.status.text = ended ? `$(${note.phase === "completed" ? "pass" : "error"}) ${name}` : `$(loading~spin) ${name}: ${note.phase}`;
    this.status.tooltip = `Belljar: ${note.message ?? note.phase}`;
    this.status.show();
    if (ended) {
      this.interactive.delete(note.run_id);
      this.logs.end(note.run_id, note.exit_code === undefined ? (note.message ?? note.phase) : `${note.phase}, exit status ${note.exit_code}`);
      if (!note.lost) this.artifacts.show(note.run_id);
    } else if (note.message) {
      this.logs.say(note.run_id, note.message);
    }
  }

  /** Marks the active runs as lost, because nothing follows them without the server. */
  onEnd(): void {
    for (const run of this.runs.active) this.onRun({ ...run, lost: true, message: "belljar lsp has ended, and the run is followed no further" });
  }

  onLog(note: LogNote): void {
    this.logs.print(note);
  }

  onTruncated(note: TruncatedNote): void {
    this.logs.truncated(note);
  }

  private showLog(run = this.runs.last): void {
    if (!run) this.output.show(true);
    else if (!this.logs.show(run.run_id)) void this.openInWeb(run);
  }

  private async openInWeb(run = this.runs.last): Promise<void> {
    if (!run) throw new Error("nothing has run yet");
    if (run.web_url) await vscode.env.openExternal(vscode.Uri.parse(run.web_url));
    else await this.server.command("belljar.sandbox.openRun", about(run)); // its diagnostics name only the run
  }

  private async openArtifacts(run = this.runs.last): Promise<void> {
    if (!run) throw new Error("nothing has run yet");
    this.artifacts.show(run.run_id);
    await vscode.commands.executeCommand("belljar.artifacts.focus");
  }

  /** Stores an artifact in a new folder, and opens it. Its path determines only the file's name. */
  private async openArtifact(runId: string, artifact: ArtifactItem): Promise<void> {
    this.folder ??= mkdtemp(join(tmpdir(), "belljar-artifacts-"));
    const to = vscode.Uri.file(join(await mkdtemp(join(await this.folder, "a-")), basename(artifact.path)));
    await this.server.command("belljar.sandbox.fetchArtifact", { run_id: runId, path: artifact.path, to: to.toString() });
    await vscode.commands.executeCommand("vscode.open", to);
  }

  private async setApiKey(): Promise<void> {
    const key = await vscode.window.showInputBox({ title: "API key of the Belljar server", password: true, ignoreFocusOut: true, prompt: "Stored in the system's keychain. Empty: forget it" });
    if (key === undefined) return;
    await this.settings.setKey(key.trim());
    await this.server.restart();
  }

  /** Asks for the image and the command of a folder's runs. */
  private async configure(): Promise<void> {
    const folder = await this.pickFolder();
    if (!folder) throw new Error("open a folder first");
    const at = { folder: folder.uri.toString() };
    const now = await this.server.command<{ base_image?: string; command?: string[]; timeout_sec?: number }>("tldw.sandbox.configure", at);
    const image = await vscode.window.showInputBox({ title: `${folder.name}: image`, value: now.base_image ?? "", prompt: "Such as python:3.12-slim. Empty: the server's default" });
    if (image === undefined) return;
    const command = await vscode.window.showInputBox({ title: `${folder.name}: command`, value: now.command ? JSON.stringify(now.command) : "", prompt: "What runs without a file. Empty: none" });
    if (command === undefined) return;
    await this.server.command("tldw.sandbox.configure", { ...at, base_image: image.trim(), command: command.trim() ? words(command) : [] });
  }
}

/** The argument of a command about a run; without a run, the server uses the last one. */
const about = (run?: RunNote): object => (run ? { run_id: run.run_id } : {});
