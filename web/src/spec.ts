// Requests of this tab, kept by the browser for as long as the tab, so that a run can be shown and repeated in full.
import type { Run, RunSpec } from "belljar-sdk";

const prefix = "belljar.spec.";
const draftKey = "belljar.draft"; // for the page of a new run
const ownerKey = "belljar.owner";

const mostEvicting = 2 << 20; // characters: a longer text does not take the space of others

/** keep stores a text. If the browser has no space, it removes the specs of the oldest runs. */
function keep(key: string, text: string): void {
  for (;;) {
    try {
      return sessionStorage.setItem(key, text);
    } catch {
      // The ids of runs sort by time.
      const oldest = Object.keys(sessionStorage).filter((one) => one.startsWith(prefix)).sort()[0];
      if (!oldest || text.length > mostEvicting) return;
      sessionStorage.removeItem(oldest);
    }
  }
}

/** keepDraft keeps the draft of a new run. If the browser has no space, a reload starts with an earlier one. */
export function keepDraft(draft: unknown): void {
  keep(draftKey, JSON.stringify(draft));
}

/** keptDraft returns the last draft. */
export function keptDraft(): unknown {
  return JSON.parse(sessionStorage.getItem(draftKey) ?? "{}");
}

/** claim assigns this tab's data to a user. It removes another user's data, and reports whether it did. */
export function claim(user: string): boolean {
  const owner = sessionStorage.getItem(ownerKey);
  const foreign = owner !== null && owner !== user;
  if (foreign) forgetWork();
  if (foreign || owner === null) sessionStorage.setItem(ownerKey, user);
  return foreign;
}

/** forgetWork removes all data that this tab keeps about requests. */
export function forgetWork(): void {
  for (const key of Object.keys(sessionStorage)) if (key === draftKey || key === ownerKey || key.startsWith(prefix)) sessionStorage.removeItem(key);
}

/** remember keeps the spec of a run. If it is too large, the run's page shows the server's data. */
export function remember(runId: string, spec: RunSpec): void {
  keep(prefix + runId, JSON.stringify(spec));
}

let last: Run | undefined;

/** handOver passes a run that has just started to its page, which need not request it again. */
export function handOver(run: Run): void {
  last = run;
}

/** handedOver returns the run of an id, if it has just started. */
export function handedOver(runId: string): Run | undefined {
  const run = last?.id === runId ? last : undefined;
  last = undefined;
  return run;
}

/** remembered returns the spec of a run, if this tab sent it. */
export function remembered(runId: string): RunSpec | undefined {
  const text = sessionStorage.getItem(prefix + runId);
  return text === null ? undefined : (JSON.parse(text) as RunSpec);
}

/** The default files to capture: the kinds that the run's page can show. */
export const shownKinds = "**/*.{png,jpg,jpeg,gif,webp,svg,csv,json}";

/** warningsOf returns a run's warnings. The page captures files by default, so it leaves out the warning about none. */
export const warningsOf = (run: Run): string[] => (run.warnings ?? []).filter((one) => one !== `capture pattern "${shownKinds}" matched no file`);

/** words splits a command line as a shell does, without expansion. An open quote is an error. */
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

/** toBase64 encodes bytes for the API. */
export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

/** fromBase64 decodes base64. */
export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}
