import { untrack } from "svelte";

/** The text that screen readers read out: changes of phase and counts, never the lines of a log. */
export const announcement = $state({ text: "" });

/** announce makes screen readers read a sentence. A repeated sentence must differ, or it is not read again. */
export function announce(text: string): void {
  announcement.text = text === untrack(() => announcement.text) ? `${text}\u00a0` : text;
}
