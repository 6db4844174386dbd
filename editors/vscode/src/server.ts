import { execFile } from "node:child_process";
import { promisify } from "node:util";
import * as vscode from "vscode";
import type { CloseHandlerResult, LanguageClient, ServerOptions } from "vscode-languageclient/node";
import type { LogNote, RunNote, TruncatedNote } from "./protocol.js";
import type { Settings } from "./settings.js";

/** The receiver of the server's notifications. */
export interface Listener {
  onRun(note: RunNote): void;
  onLog(note: LogNote): void;
  onTruncated(note: TruncatedNote): void;
  onEnd(): void;
}

/** The maximum number of restarts after unexpected exits, and their time window. */
const mostRestarts = 4, restartsWithin = 180_000; // ms

/** The language server, started on first use. */
export class Server {
  private starting: Promise<LanguageClient> | undefined;
  private ends: number[] = []; // times of unexpected exits

  constructor(private readonly settings: Settings, private readonly output: vscode.LogOutputChannel, private readonly listener: Listener) {}

  /** Starts the server, once for all callers. */
  start(): Promise<LanguageClient> {
    if (this.starting) return this.starting;
    const starting = this.begin().catch((err: unknown) => {
      if (this.starting === starting) this.starting = undefined;
      throw err;
    });
    return (this.starting = starting);
  }

  async stop(): Promise<void> {
    const { starting } = this;
    this.starting = undefined;
    const client = await starting?.catch(() => undefined); // also stop a server that is still starting
    await client?.dispose();
    this.listener.onEnd();
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  async command<T>(name: string, argument: object = {}): Promise<T> {
    const client = await this.start();
    return client.sendRequest<T>("workspace/executeCommand", { command: name, arguments: [argument] });
  }

  private tellLenses(client: LanguageClient): Promise<void> {
    return client.sendNotification("workspace/didChangeConfiguration", { settings: { tldw: { sandbox: { codeLens: this.settings.codeLens } } } }).catch(() => undefined); // the next server asks again
  }

  /** Restarts a server that has exited, up to a limit. After that, the next command starts it. */
  private ended({ CloseAction }: typeof import("vscode-languageclient/node")): CloseHandlerResult {
    this.listener.onEnd();
    const now = Date.now();
    this.ends = [...this.ends.filter((at) => now - at < restartsWithin), now];
    if (this.ends.length <= mostRestarts) return { action: CloseAction.Restart };
    this.starting = undefined;
    this.ends = [];
    this.output.error(`belljar lsp ended ${mostRestarts + 1} times in ${restartsWithin / 60_000} minutes. It is started again with the next command.`);
    this.output.show(true);
    return { action: CloseAction.DoNotRestart, handled: true };
  }

  private async begin(): Promise<LanguageClient> {
    const lsp = await import("vscode-languageclient/node"); // imported late, because it takes longer to load than everything else
    const { program, serverUrl, codeLens } = this.settings;
    this.output.info(`${program} is version ${await version(program)}`);
    const env: NodeJS.ProcessEnv = { ...process.env };
    const args = ["lsp", "--stdio"];
    if (serverUrl) args.push("--server", serverUrl);
    if (serverUrl || (env.BELLJAR_SERVER && !env.BELLJAR_API_KEY)) {
      const key = await this.settings.key();
      if (key) env.BELLJAR_API_KEY = key; // never on the command line, which other users can read
    }
    const server: ServerOptions = { command: program, args, options: { env } };
    const client: LanguageClient = new lsp.LanguageClient("belljar", "Belljar", server, {
      documentSelector: [{ scheme: "file" }, { scheme: "untitled" }],
      initializationOptions: { clientCommands: true, notifications: true, codeLens },
      outputChannel: this.output,
      // Sends only this setting, the only one that the server needs. The client would also send the API key, and would omit a false
      // value.
      middleware: { workspace: { didChangeConfiguration: () => this.tellLenses(client) } },
      errorHandler: { error: () => ({ action: lsp.ErrorAction.Continue, handled: true }), closed: () => this.ended(lsp) },
    });
    client.onNotification("belljar/run", (note: RunNote) => this.listener.onRun(note));
    client.onNotification("belljar/log", (note: LogNote) => this.listener.onLog(note));
    client.onNotification("belljar/logTruncated", (note: TruncatedNote) => this.listener.onTruncated(note));
    await client.start();
    return client;
  }
}

/** Returns the version of a program, or throws if it is not belljar. */
async function version(program: string): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(program, ["version", "--json"], { timeout: 10_000 });
    const found = (JSON.parse(stdout) as { version?: unknown }).version;
    if (typeof found === "string") return found;
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === "ENOENT") throw new Error(`${program} is not installed, or not on the PATH. Install it, or set tldw.sandbox.path`);
    throw new Error(`${program} version --json does not work: ${String(err)}`);
  }
  throw new Error(`${program} is not belljar. Set tldw.sandbox.path`);
}
