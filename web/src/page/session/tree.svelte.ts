// The open folders of a workspace.
import type { FileEntry, Files } from "belljar-sdk";
import { SvelteMap, SvelteSet } from "svelte/reactivity";
import { baseOf, byName, folderOf, inside, moved } from "./name.ts";

/** A row of the tree. */
export interface Row {
  key: string;
  entry: FileEntry;
  name: string;
  /** The depth, from 1. */
  level: number;
  /** Its position in its folder, from 1, and the number of entries. */
  place: number;
  of: number;
  open: boolean;
}

interface Folder {
  entries: FileEntry[];
  truncated: boolean;
  /** The number of the listing: a late answer to an earlier one is ignored. */
  turn: number;
}

/** The workspace itself. */
export const root = "";

export class Tree {
  /** The last error. */
  error: unknown = $state.raw();
  readonly open = new SvelteSet<string>();
  readonly #folders = new SvelteMap<string, Folder>();
  #turn = 0;
  readonly #files: () => Files;
  readonly #failed: (error: unknown) => boolean;

  /** failed may handle an error: then it is not kept. */
  constructor(files: () => Files, failed: (error: unknown) => boolean) {
    this.#files = files;
    this.#failed = failed;
  }

  rows: Row[] = $derived.by(() => {
    const rows: Row[] = [];
    const add = (folder: string, level: number) => {
      const entries = this.#folders.get(folder)?.entries ?? [];
      entries.forEach((entry, i) => {
        const open = entry.type === "dir" && this.open.has(entry.path);
        // Names that are not UTF-8 may look the same.
        const key = entry.path.includes("\ufffd") ? `${entry.path}\0${i}` : entry.path;
        rows.push({ key, entry, name: baseOf(entry.path), level, place: i + 1, of: entries.length, open });
        if (open) add(entry.path, level + 1);
      });
    };
    add(root, 1);
    return rows;
  });

  /** Whether the workspace has been listed. */
  get known(): boolean { return this.#folders.has(root); }

  /** Open folders with more entries than the listing. */
  get truncated(): string[] {
    return [...this.#folders].filter(([path, folder]) => folder.truncated && (path === root || this.open.has(path))).map(([path]) => path);
  }

  /** load lists a folder. */
  async load(folder: string): Promise<void> {
    const turn = ++this.#turn;
    try {
      const { entries, truncated } = await this.#files().list(folder || ".");
      if (turn < (this.#folders.get(folder)?.turn ?? 0)) return;
      this.#folders.set(folder, { entries: [...(entries ?? [])].sort(byName), truncated, turn });
      this.error = undefined;
    } catch (error) {
      if ((error as { code?: unknown }).code === "not_found" && folder !== root) this.forget(folder);
      else if (!this.#failed(error)) this.error = error;
    }
  }

  /** reload lists every open folder again. */
  async reload(): Promise<void> {
    await Promise.all([root, ...this.open].map((folder) => this.load(folder)));
  }

  /** toggle opens or closes a folder. */
  async toggle(folder: string, open = !this.open.has(folder)): Promise<void> {
    if (!open) this.open.delete(folder);
    else if (!this.open.has(folder)) {
      this.open.add(folder);
      await this.load(folder);
    }
  }

  /** reveal opens the parent folders of a path. */
  async reveal(path: string): Promise<void> {
    const parts = folderOf(path).split("/").filter(Boolean);
    for (let i = 1; i <= parts.length; i++) await this.toggle(parts.slice(0, i).join("/"), true);
  }

  /** renamed keeps renamed folders open. */
  renamed(from: string, to: string): void {
    for (const path of [...this.open].filter((one) => inside(one, from))) {
      this.open.delete(path);
      this.open.add(moved(path, from, to));
    }
  }

  /** forget removes a deleted folder and everything below it. */
  forget(folder: string): void {
    for (const path of [...this.open, ...this.#folders.keys()].filter((one) => inside(one, folder))) {
      this.open.delete(path);
      this.#folders.delete(path);
    }
  }
}
