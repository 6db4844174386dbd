// Texts of a terminal that are shown elsewhere on the page.

/**
 * titleOf returns a program's title for its terminal as one short line, without control characters or characters that change the text
 * direction.
 */
export function titleOf(title: string): string {
  const plain = title.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, "").trim();
  const letters = [...plain];
  return letters.length > 60 ? `${letters.slice(0, 59).join("")}…` : plain;
}

/** linesOf returns the number of lines of a text. */
export function linesOf(text: string): number {
  return text.replace(/(?:\r\n|\r|\n)$/, "").split(/\r\n|\r|\n/).length;
}
