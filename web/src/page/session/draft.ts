// Unsaved texts whose page closed without the user's action, such as for a new sign-in.
import type { FileEntry } from "belljar-sdk";
import { SvelteMap } from "svelte/reactivity";

/** An unsaved text. */
export interface Draft {
  text: string;
  /** The file's content when it was read, and its state. */
  saved: string;
  seen: FileEntry;
  etag: string | undefined;
  eol: "\n" | "\r\n";
  mixed: boolean;
}

// By session, then path. An editor leaves its text when the next page is already shown, so that page must observe this
// map.
const kept = new SvelteMap<string, SvelteMap<string, Draft>>();

/** keep stores a draft until take removes it. */
export function keep(session: string, path: string, draft: Draft): void {
  if (!kept.has(session)) kept.set(session, new SvelteMap());
  kept.get(session)!.set(path, draft);
}

/** take returns a draft, and removes it. */
export function take(session: string, path: string): Draft | undefined {
  const draft = kept.get(session)?.get(path);
  kept.get(session)?.delete(path);
  return draft;
}

/** anyDraft returns whether there is a draft. */
export const anyDraft = (): boolean => [...kept.values()].some((drafts) => drafts.size > 0);

/** draftsOf are those of a session. */
export const draftsOf = (session: string): [path: string, draft: Draft][] => [...(kept.get(session) ?? [])];

/** askAtUnload makes the browser ask before the page closes. Call the returned function to stop that. */
export function askAtUnload(): () => void {
  const ask = (event: BeforeUnloadEvent) => event.preventDefault();
  window.addEventListener("beforeunload", ask);
  return () => window.removeEventListener("beforeunload", ask);
}
