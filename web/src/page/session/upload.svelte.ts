// Files on their way into a workspace.
import type { Files } from "belljar-sdk";
import { watchUpload } from "../../upload.ts";
import { join } from "./name.ts";

/** A file on its way. */
export interface Upload {
  readonly path: string;
  readonly file: File;
  state: "waiting" | "sending" | "done" | "exists" | "failed";
  sent: number;
  error: unknown;
}

const mostAtOnce = 2;

export class Uploads {
  all: Upload[] = $state([]);
  readonly #files: () => Files;
  readonly #landed: () => void;
  #sending = 0;
  #stop = new AbortController();

  /** landed is called when some have arrived. */
  constructor(files: () => Files, landed: () => void) {
    this.#files = files;
    this.#landed = landed;
  }

  get busy(): boolean {
    return this.all.some(({ state }) => state === "waiting" || state === "sending");
  }

  /** add sends files, by their paths below a folder. */
  add(folder: string, files: { path: string; file: File }[]): void {
    for (const { path, file } of files) this.all.push({ path: join(folder, path), file, state: "waiting", sent: 0, error: undefined });
    this.#next();
  }

  /** replace sends a file in place of one that is there. */
  replace(one: Upload): void {
    void this.#send(one, true);
  }

  /** retry sends a file again. */
  retry(one: Upload): void {
    void this.#send(one, false);
  }

  /** stop gives up what is under way. */
  stop(): void {
    this.#stop.abort();
    this.#stop = new AbortController();
    this.all = this.all.filter(({ state }) => state !== "waiting");
  }

  /** clear forgets those that are over. */
  clear(): void {
    this.all = this.all.filter(({ state }) => state === "waiting" || state === "sending");
  }

  #next(): void {
    while (this.#sending < mostAtOnce) {
      const one = this.all.find(({ state }) => state === "waiting");
      if (!one) return;
      void this.#send(one, false);
    }
  }

  async #send(one: Upload, overwrite: boolean): Promise<void> {
    this.#sending++;
    one.state = "sending";
    one.sent = 0;
    one.error = undefined;
    // A body of its own: it is watched, and the file may be sent again.
    const body = one.file.slice(0, one.file.size, one.file.type);
    watchUpload(body, (sent) => (one.sent = sent));
    try {
      await this.#files().write(one.path, body, { overwrite, signal: this.#stop.signal });
      one.state = "done";
      one.sent = one.file.size;
    } catch (error) {
      one.state = (error as { code?: unknown }).code === "conflict" ? "exists" : "failed";
      one.error = error;
    }
    this.#sending--;
    this.#next();
    if (!this.busy) this.#landed();
  }
}

/** dropped are the files that were dropped, those in folders too. It is to be called while the event is handled. */
export async function dropped(data: DataTransfer): Promise<{ path: string; file: File }[]> {
  const entries = [...data.items].map((item) => item.webkitGetAsEntry?.()).filter((entry) => entry != null);
  if (entries.length === 0) return [...data.files].map((file) => ({ path: file.name, file }));
  const found: { path: string; file: File }[] = [];
  for (const entry of entries) await walk(entry, "", found);
  return found;
}

async function walk(entry: FileSystemEntry, above: string, found: { path: string; file: File }[]): Promise<void> {
  const path = join(above, entry.name);
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    found.push({ path, file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    // A reader gives a hundred at a time.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    for (const one of some) await walk(one, path, found);
  }
}
