// What was asked for: kept by this browser for as long as its tab, so that a run can be looked at and sent again in full.
import type { Run, RunSpec } from "belljar-sdk";

const prefix = "belljar.spec.";
const draftKey = "belljar.draft"; // of the page for a new run
const ownerKey = "belljar.owner";

/** keepDraft keeps what a new run is to be. */
export function keepDraft(draft: unknown): void {
  try {
    sessionStorage.setItem(draftKey, JSON.stringify(draft));
  } catch {
    // no room: a reload begins anew
  }
}

/** keptDraft is the draft that was kept last. */
export function keptDraft(): unknown {
  return JSON.parse(sessionStorage.getItem(draftKey) ?? "{}");
}

/** claim makes what this tab keeps a user's. It forgets what another user has left, and reports whether it did. */
export function claim(user: string): boolean {
  const owner = sessionStorage.getItem(ownerKey);
  const foreign = owner !== null && owner !== user;
  if (foreign) forgetWork();
  if (foreign || owner === null) sessionStorage.setItem(ownerKey, user);
  return foreign;
}

/** forgetWork forgets all that this tab keeps of what was asked for. */
export function forgetWork(): void {
  for (const key of Object.keys(sessionStorage)) if (key === draftKey || key === ownerKey || key.startsWith(prefix)) sessionStorage.removeItem(key);
}

/** remember keeps what a run was sent with. A browser that has no room for it has it no more; the run is the same. */
export function remember(runId: string, spec: RunSpec): void {
  try {
    sessionStorage.setItem(prefix + runId, JSON.stringify(spec));
  } catch {
    // too large: the run's page shows what the server knows
  }
}

let last: Run | undefined;

/** handOver keeps a run that was just started for its page, which need not wait for the server to tell it again. */
export function handOver(run: Run): void {
  last = run;
}

/** handedOver is the run of an id, if it was started just now. */
export function handedOver(runId: string): Run | undefined {
  const run = last?.id === runId ? last : undefined;
  last = undefined;
  return run;
}

/** remembered is what a run was sent with, if this tab sent it. */
export function remembered(runId: string): RunSpec | undefined {
  const text = sessionStorage.getItem(prefix + runId);
  return text === null ? undefined : (JSON.parse(text) as RunSpec);
}

/** What a new run keeps of its workspace if the user says nothing: the kinds of files that the run's page can show. */
export const shownKinds = "**/*.{png,jpg,jpeg,gif,webp,svg,csv,json}";

/** warningsOf returns what a user has to know of a run. The page captures files by default, so that a run without files is no news. */
export const warningsOf = (run: Run): string[] => (run.warnings ?? []).filter((one) => one !== `capture pattern "${shownKinds}" matched no file`);

/** words takes a command line apart as a shell does, without expanding anything. An open quote is an error. */
export function words(line: string): string[] {
  const found: string[] = [];
  let word: string | undefined;
  let quote = "";
  for (let i = 0; i < line.length; i++) {
    const char = line[i]!;
    if (quote === "'") {
      if (char === "'") quote = "";
      else word += char;
    } else if (char === "\\" && i + 1 < line.length && (quote === "" || '"\\$`\n'.includes(line[i + 1]!))) {
      if (line[++i] !== "\n") word = (word ?? "") + line[i];
    } else if (quote === '"') {
      if (char === '"') quote = "";
      else word += char;
    } else if (char === "'" || char === '"') {
      quote = char;
      word ??= "";
    } else if (/\s/.test(char)) {
      if (word !== undefined) found.push(word);
      word = undefined;
    } else {
      word = (word ?? "") + char;
    }
  }
  if (quote) throw new Error(`The command has an open quote: ${quote}`);
  if (word !== undefined) found.push(word);
  return found;
}

/** toBase64 writes bytes as the API takes them. */
export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

/** fromBase64 reads them. */
export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}
