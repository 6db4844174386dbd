// Texts of a terminal for display outside of it.
import { unseen } from "../format.ts";

/** titleOf returns a program's terminal title as one short line, without control characters and direction overrides. */
export function titleOf(title: string): string {
  const plain = title.replace(unseen, "").trim();
  const letters = [...plain];
  return letters.length > 60 ? `${letters.slice(0, 59).join("")}…` : plain;
}

/** linesOf returns the number of lines in a text. */
export function linesOf(text: string): number {
  return text.replace(/(?:\r\n|\r|\n)$/, "").split(/\r\n|\r|\n/).length;
}
