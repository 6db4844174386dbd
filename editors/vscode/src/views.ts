import * as vscode from "vscode";
import { over, type ArtifactItem, type ArtifactList, type RunNote } from "./protocol.js";

/** The maximum number of runs in the view. */
const mostRuns = 50;

/** The runs of this window, newest first. */
export class RunsView implements vscode.TreeDataProvider<RunNote> {
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChangeTreeData = this.changed.event;
  private runs: RunNote[] = [];

  note(note: RunNote): void {
    const at = this.runs.findIndex((r) => r.run_id === note.run_id);
    const { message: _, ...before } = this.runs[at] ?? note;
    if (at >= 0) this.runs[at] = { ...before, ...note };
    else this.runs = [note, ...this.runs].slice(0, mostRuns);
    this.changed.fire();
  }

  get last(): RunNote | undefined {
    return this.runs[0];
  }

  get active(): RunNote[] {
    return this.runs.filter((run) => !over(run));
  }

  getChildren(parent?: RunNote): RunNote[] {
    return parent ? [] : this.runs;
  }

  getTreeItem(run: RunNote): vscode.TreeItem {
    const item = new vscode.TreeItem(nameOf(run));
    item.id = run.run_id;
    item.description = run.lost ? `${run.phase} when it was lost` : run.exit_code === undefined ? run.phase : `${run.phase}, exit ${run.exit_code}`;
    item.tooltip = [run.run_id, run.message].filter(Boolean).join("\n");
    item.contextValue = over(run) ? "run.ended" : "run.active";
    item.iconPath = new vscode.ThemeIcon(!over(run) ? "loading~spin" : run.phase === "completed" ? "pass" : "error");
    item.command = { title: "Show Log", command: "belljar.showLog", arguments: [run] };
    return item;
  }
}

/** The display name of a run. */
export const nameOf = (run: RunNote): string => (run.target ? decodeURIComponent(run.target.split("/").pop() ?? "") : "command");

/** The artifacts of one run, loaded when the view is shown. */
export class ArtifactsView implements vscode.TreeDataProvider<ArtifactItem> {
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChangeTreeData = this.changed.event;
  private runId = "";

  constructor(private readonly list: (runId: string) => Promise<ArtifactList>) {}

  show(runId: string): void {
    this.runId = runId;
    this.changed.fire();
  }

  async getChildren(parent?: ArtifactItem): Promise<ArtifactItem[]> {
    return parent || !this.runId ? [] : (await this.list(this.runId)).items;
  }

  getTreeItem(artifact: ArtifactItem): vscode.TreeItem {
    const item = new vscode.TreeItem(artifact.path);
    item.description = artifact.skipped ? `not kept: ${artifact.skipped}` : artifact.link_target ? `link to ${artifact.link_target}` : `${artifact.size} bytes`;
    item.iconPath = vscode.ThemeIcon.File;
    if (!artifact.skipped && !artifact.link_target) item.command = { title: "Open", command: "belljar.openArtifact", arguments: [this.runId, artifact] };
    return item;
  }
}
