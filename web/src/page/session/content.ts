// The content of a file: editable text, a picture, or bytes.

/** The maximum size in bytes of a file that is shown. */
export const mostShown = 5 << 20;

/** The same for a notebook: up to this size, the server compares it when it is saved. */
export const mostNotebook = 8 << 20;

/** The displayed content of a file. */
export type Shown =
  | { kind: "text"; text: string; eol: "\n" | "\r\n"; mixed: boolean }
  | { kind: "picture"; type: string; bytes: Uint8Array }
  | { kind: "bytes" };

/** contentOf returns the content of a file. Its first bytes identify a picture; only for SVG, which is text, its name does. */
export function contentOf(path: string, bytes: Uint8Array): Shown {
  const type = pictureOf(bytes);
  if (type) return { kind: "picture", type, bytes };
  const text = textOf(bytes);
  if (text === undefined) return { kind: "bytes" };
  if (/\.svg$/i.test(path) && /<svg[\s>]/i.test(text)) return { kind: "picture", type: "image/svg+xml", bytes };
  return asText(text);
}

/** asText returns text for an editor, whose lines end with \n only, and the original line ending. */
export function asText(text: string): Shown & { kind: "text" } {
  const pairs = text.match(/\r\n/g)?.length ?? 0;
  const all = text.match(/\r\n|\r|\n/g)?.length ?? 0;
  const eol = pairs > 0 && pairs === all ? "\r\n" : "\n";
  const plain = pairs === 0 && !text.includes("\r");
  return { kind: "text", text: plain ? text : text.replace(/\r\n?/g, "\n"), eol, mixed: !plain && eol === "\n" };
}

/** textOf decodes UTF-8 without a NUL, the usual definition of text; undefined for anything else. It keeps a byte order mark. */
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
