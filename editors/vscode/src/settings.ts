import * as vscode from "vscode";

const secretName = "belljar.apiKey";

/** The settings of the extension. Only the user can set those that decide where code goes: see their scopes in package.json. */
export class Settings {
  constructor(private readonly secrets: vscode.SecretStorage) {}

  private get<T>(name: string, otherwise: T, scope?: vscode.Uri): T {
    return vscode.workspace.getConfiguration("tldw.sandbox", scope ?? null).get<T>(name, otherwise);
  }

  /** The user's own value, which a folder's settings do not override. */
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

  /** The defaults of a run, which its arguments override. */
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

  /** The files to send; undefined if the settings have no rules. */
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
