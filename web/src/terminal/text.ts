// Texts of a terminal that are shown outside of it.

/** titleOf is a title that a program gives its terminal, as one short line: no control characters, none that turn the text around. */
export function titleOf(title: string): string {
  const plain = title.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, "").trim();
  const letters = [...plain];
  return letters.length > 60 ? `${letters.slice(0, 59).join("")}…` : plain;
}

/** linesOf is how many lines a text has. */
export function linesOf(text: string): number {
  return text.replace(/(?:\r\n|\r|\n)$/, "").split(/\r\n|\r|\n/).length;
}
