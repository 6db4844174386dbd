import { untrack } from "svelte";

/** What a reader of the screen is to hear: changes of phase and counts, never the lines of a log. */
export const announcement = $state({ text: "" });

/** announce has a sentence read out. The same once more is another text, or it would not be. */
export function announce(text: string): void {
  announcement.text = text === untrack(() => announcement.text) ? `${text}\u00a0` : text;
}
