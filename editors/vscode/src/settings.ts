import * as vscode from "vscode";

const secretName = "belljar.apiKey";

/** The settings of the extension. Those that decide where code goes are the user's alone: see their scopes in package.json. */
export class Settings {
  constructor(private readonly secrets: vscode.SecretStorage) {}

  private get<T>(name: string, otherwise: T, scope?: vscode.Uri): T {
    return vscode.workspace.getConfiguration("tldw.sandbox", scope ?? null).get<T>(name, otherwise);
  }

  /** The user's own value, whatever a folder says. */
  private own<T>(name: string, otherwise: T): T {
    const found = vscode.workspace.getConfiguration("tldw.sandbox").inspect<T>(name);
    return found?.globalValue ?? found?.defaultValue ?? otherwise;
  }

  get serverUrl(): string {
    return this.own("serverUrl", "").trim().replace(/\/+$/, "");
  }

  get program(): string {
    return this.own("path", "").trim() || "belljar";
  }

  get codeLens(): boolean {
    return this.get("codeLens", true);
  }

  /** What a run has unless its arguments say otherwise. */
  terms(scope?: vscode.Uri): Record<string, unknown> {
    const terms: Record<string, unknown> = {};
    const image = this.own("image", ""), runtime = this.own("runtime", "");
    const timeout = this.get("timeoutSec", 0, scope), capture = this.get<string[]>("capturePatterns", [], scope);
    if (image) terms.base_image = image;
    if (runtime) terms.runtime = runtime;
    if (timeout > 0) terms.timeout_sec = timeout;
    if (capture.length > 0) terms.capture_patterns = capture;
    return terms;
  }

  /** Which files are sent; undefined if the settings do not say. */
  sync(scope?: vscode.Uri): { ignore: string[]; allow: string[] } | undefined {
    const ignore = this.get<string[]>("sync.ignore", [], scope), allow = this.own<string[]>("sync.allow", []);
    return ignore.length + allow.length > 0 ? { ignore, allow } : undefined;
  }

  async key(): Promise<string> {
    return (await this.secrets.get(secretName)) ?? this.own("apiKey", "");
  }

  async setKey(key: string): Promise<void> {
    if (key) await this.secrets.store(secretName, key);
    else await this.secrets.delete(secretName);
  }
}
