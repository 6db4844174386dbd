/** What a reader of the screen is to hear: changes of phase and counts, never the lines of a log. */
export const announcement = $state({ text: "" });

/** announce has a sentence read out. */
export function announce(text: string): void {
  announcement.text = text;
}
