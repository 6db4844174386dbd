import { untrack } from "svelte";

/** The text for screen readers: changes of phase and counts, never the lines of a log. */
export const announcement = $state({ text: "" });

/** announce lets screen readers read a sentence aloud. A repeated sentence gets a space, or it would be skipped. */
export function announce(text: string): void {
  announcement.text = text === untrack(() => announcement.text) ? `${text}\u00a0` : text;
}
