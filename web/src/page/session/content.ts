// What is in a file: text that can be edited, a picture, or bytes.

/** The largest file that is shown. */
export const mostShown = 5 << 20;

/** What a file holds. */
export type Shown =
  | { kind: "text"; text: string; eol: "\n" | "\r\n"; mixed: boolean }
  | { kind: "picture"; type: string; bytes: Uint8Array }
  | { kind: "bytes" };

/** contentOf returns what a file holds. The first bytes decide what is a picture; only for SVG, which is text, the name does. */
export function contentOf(path: string, bytes: Uint8Array): Shown {
  const type = pictureOf(bytes);
  if (type) return { kind: "picture", type, bytes };
  const text = textOf(bytes);
  if (text === undefined) return { kind: "bytes" };
  if (/\.svg$/i.test(path) && /<svg[\s>]/i.test(text)) return { kind: "picture", type: "image/svg+xml", bytes };
  return asText(text);
}

/** asText is text for an editor, whose lines end with \n alone, and how they ended. */
export function asText(text: string): Shown & { kind: "text" } {
  const pairs = text.match(/\r\n/g)?.length ?? 0;
  const all = text.match(/\r\n|\r|\n/g)?.length ?? 0;
  const eol = pairs > 0 && pairs === all ? "\r\n" : "\n";
  const plain = pairs === 0 && !text.includes("\r");
  return { kind: "text", text: plain ? text : text.replace(/\r\n?/g, "\n"), eol, mixed: !plain && eol === "\n" };
}

/** textOf is UTF-8 without a NUL, as most tools tell text; undefined if it is not. A byte order mark stays. */
export function textOf(bytes: Uint8Array): string | undefined {
  if (bytes.subarray(0, 8192).includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function pictureOf(bytes: Uint8Array): string | undefined {
  const head = String.fromCharCode(...bytes.subarray(0, 12));
  if (head.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (head.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (/^GIF8[79]a/.test(head)) return "image/gif";
  if (/^RIFF....WEBP/s.test(head)) return "image/webp";
  return undefined;
}
