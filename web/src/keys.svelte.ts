// Keyboard shortcuts of the pages, and their list, which ? shows.

/** A keyboard shortcut of the current page. */
export interface Shortcut {
  /** As KeyboardEvent.key, with the prefix Ctrl+ if needed: "g r" is g, then r. */
  keys: string;
  does: string;
  run: () => void;
  /** Whether it works while the focus is in a field. */
  inFields?: boolean;
  /** Whether it works while a dialog is over the page. */
  inDialogs?: boolean;
}

let all: Shortcut[] = [];
let first = "";

/** shortcut adds keyboard shortcuts while the calling component is mounted. */
export function shortcut(...added: Shortcut[]): void {
  $effect(() => {
    all = [...all, ...added];
    return () => { all = all.filter((one) => !added.includes(one)); };
  });
}

/** listed returns the active shortcuts. */
export const listed = (): Shortcut[] => all;

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.altKey || event.isComposing) return;
  const pressed = (event.ctrlKey || event.metaKey ? "Ctrl+" : "") + event.key;
  const target = event.target as HTMLElement;
  const inField = target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
  const whole = first ? `${first} ${pressed}` : pressed;
  const inDialog = document.querySelector("dialog[open]") !== null;
  const hit = all.findLast((one) => one.keys === whole && (!inField || one.inFields) && (!inDialog || one.inDialogs));
  first = !hit && !inField && all.some((one) => one.keys.startsWith(`${pressed} `)) ? pressed : "";
  if (!hit) return;
  event.preventDefault();
  hit.run();
});
