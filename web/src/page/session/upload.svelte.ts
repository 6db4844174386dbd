// Uploads to a workspace.
import type { Files } from "belljar-sdk";
import { watchUpload } from "../../upload.ts";
import { join } from "./name.ts";

/** The upload of a file. */
export interface Upload {
  readonly path: string;
  readonly file: File;
  state: "waiting" | "sending" | "done" | "exists" | "failed";
  /** Whether it replaces an existing file. */
  overwrite: boolean;
  sent: number;
  /** Why it failed; while it is sending, the reason of the retry. */
  error: unknown;
}

const mostAtOnce = 2;

// The number of retries after a broken connection: for two minutes, with pauses of 1, 2, 4 … 30 s.
const mostRetries = 8;

export class Uploads {
  all: Upload[] = $state([]);
  readonly #files: () => Files;
  readonly #landed: () => void;
  #sending = 0;
  #stop = new AbortController();

  /** The constructor's landed is called after uploads have arrived. */
  constructor(files: () => Files, landed: () => void) {
    this.#files = files;
    this.#landed = landed;
  }

  get busy(): boolean {
    return this.all.some(({ state }) => state === "waiting" || state === "sending");
  }

  /** add uploads files, by their paths below a folder. */
  add(folder: string, files: { path: string; file: File }[]): void {
    for (const { path, file } of files) this.all.push({ path: join(folder, path), file, state: "waiting", overwrite: false, sent: 0, error: undefined });
    this.#next();
  }

  /** replace uploads a file in place of an existing one. */
  replace(one: Upload): void {
    one.overwrite = true;
    this.retry(one);
  }

  /** retry uploads a file again. */
  retry(one: Upload): void {
    one.state = "waiting";
    this.#next();
  }

  /** stop cancels the uploads. */
  stop(): void {
    this.#stop.abort();
    this.#stop = new AbortController();
    this.all = this.all.filter(({ state }) => state !== "waiting");
  }

  /** clear removes finished uploads from the list. */
  clear(): void {
    this.all = this.all.filter(({ state }) => state === "waiting" || state === "sending");
  }

  #next(): void {
    while (this.#sending < mostAtOnce) {
      const one = this.all.find(({ state }) => state === "waiting");
      if (!one) return;
      void this.#send(one);
    }
  }

  async #send(one: Upload): Promise<void> {
    const { signal } = this.#stop;
    this.#sending++;
    one.state = "sending";
    one.error = undefined;
    for (let retries = 0; one.state === "sending"; retries++) {
      one.sent = 0;
      // A separate body: watchUpload watches it, and the file may be sent again.
      const body = one.file.slice(0, one.file.size, one.file.type);
      watchUpload(body, (sent) => (one.sent = sent));
      try {
        await this.#files().write(one.path, body, { overwrite: one.overwrite, signal });
        one.state = "done";
        one.sent = one.file.size;
        one.error = undefined;
      } catch (error) {
        one.error = error;
        const { code, details } = error as { code?: unknown; details?: { rule?: unknown } };
        // An upload that does not replace a file can be retried: if the first attempt has arrived after all, the second is a conflict.
        const again = code === "runtime_unavailable" && retries < mostRetries && (await pause(retries, signal));
        if (!again) one.state = details?.rule === "exists" ? "exists" : "failed"; // to replace does not help against other conflicts
      }
    }
    this.#sending--;
    this.#next();
    if (!this.busy) this.#landed();
  }
}

/** pause waits before a retry; false if the user stops the upload. */
function pause(retries: number, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve(!signal.aborted);
    };
    const timer = setTimeout(end, Math.min(1000 * 2 ** retries, 30_000) * (0.9 + 0.2 * Math.random()));
    signal.addEventListener("abort", end);
    if (signal.aborted) end();
  });
}

/** dropped returns the dropped files, including those in folders. Call it while the event is handled. */
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
    // A reader returns a hundred at a time.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    for (const one of some) await walk(one, path, found);
  }
}
