/** copy puts a text into the clipboard, and reports whether the browser lets it. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text); // without https, a page has no clipboard, but what is selected on it can be copied
  }
}

function copySelected(text: string): boolean {
  const before = document.activeElement;
  const box = Object.assign(document.createElement("textarea"), { value: text, className: "hidden" });
  box.style.position = "fixed"; // its focus scrolls nothing
  (document.querySelector("dialog[open]") ?? document.body).append(box);
  box.select();
  const copied = document.execCommand("copy");
  box.remove();
  if (before instanceof HTMLElement) before.focus({ preventScroll: true });
  return copied;
}
