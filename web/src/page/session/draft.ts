// Texts that were being edited when their page went away without the user's doing, such as for a new sign-in.
import type { FileEntry } from "belljar-sdk";
import { SvelteMap } from "svelte/reactivity";

/** A text that is not saved. */
export interface Draft {
  text: string;
  /** What the file had when it was read, and how it stood. */
  saved: string;
  seen: FileEntry;
  etag: string | undefined;
  eol: "\n" | "\r\n";
  mixed: boolean;
}

// By session, then path. An editor leaves its text when what comes in its place is shown already, which has to hear of it.
const kept = new SvelteMap<string, SvelteMap<string, Draft>>();

/** keep keeps a draft until it is taken. */
export function keep(session: string, path: string, draft: Draft): void {
  if (!kept.has(session)) kept.set(session, new SvelteMap());
  kept.get(session)!.set(path, draft);
}

/** take returns a draft, and forgets it. */
export function take(session: string, path: string): Draft | undefined {
  const draft = kept.get(session)?.get(path);
  kept.get(session)?.delete(path);
  return draft;
}

/** anyDraft tells whether there is one. */
export const anyDraft = (): boolean => [...kept.values()].some((drafts) => drafts.size > 0);

/** draftsOf are those of a session. */
export const draftsOf = (session: string): [path: string, draft: Draft][] => [...(kept.get(session) ?? [])];

/** askAtUnload has the browser ask before the page goes, until what it returns is called. */
export function askAtUnload(): () => void {
  const ask = (event: BeforeUnloadEvent) => event.preventDefault();
  window.addEventListener("beforeunload", ask);
  return () => window.removeEventListener("beforeunload", ask);
}
