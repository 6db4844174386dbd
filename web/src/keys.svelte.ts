// The keys that pages react to, and the list of them that ? shows.

/** A key with an effect on the current page. */
export interface Shortcut {
  /** The name in KeyboardEvent.key, after Ctrl+ if that is needed: "g r" is g, then r. */
  keys: string;
  does: string;
  run: () => void;
  /** Whether it works while the focus is in a field. */
  inFields?: boolean;
  /** Whether it works while a dialog is open. */
  inDialogs?: boolean;
}

let all: Shortcut[] = [];
let first = "";

/** shortcut activates keys while the calling component is shown. */
export function shortcut(...added: Shortcut[]): void {
  $effect(() => {
    all = [...all, ...added];
    return () => { all = all.filter((one) => !added.includes(one)); };
  });
}

/** listed returns the shortcuts that work now. */
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
