// The display of an artifact. Its name decides, and for images also their first bytes: a program's file is never rendered as a page.

export type Kind = "image" | "svg" | "csv" | "json" | "text" | "none";

const images: Record<string, string> = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp" };
const texts = new Set(["txt", "log", "md", "py", "js", "mjs", "ts", "go", "java", "c", "h", "cc", "cpp", "rs", "sh", "rb", "html", "htm", "xml", "css", "yaml", "yml", "toml", "ini", "cfg", "sql", "diff", "patch", "tex", "ipynb", "jsonl", "ndjson", "env"]);

/** The maximum bytes to show of a table, tree or image, and of a text. */
export const mostBytes = 5 << 20;
export const mostText = 256 << 10;

/** kindOf returns the kind of display for a file name. */
export function kindOf(path: string): Kind {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  const end = name.includes(".") ? name.slice(name.lastIndexOf(".") + 1) : "";
  if (Object.hasOwn(images, end)) return "image";
  if (end === "svg") return "svg";
  if (end === "csv" || end === "tsv") return "csv";
  if (end === "json" || end === "geojson") return "json";
  if (texts.has(end) || /^(readme|makefile|dockerfile|license)$/.test(name)) return "text";
  return "none";
}

/** imageType returns the media type of an image by its bytes; undefined if the page does not show that type. */
export function imageType(bytes: Uint8Array): string | undefined {
  const begins = (signature: number[], at = 0) => signature.every((byte, i) => bytes[at + i] === byte);
  if (begins([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])) return images["png"];
  if (begins([0xff, 0xd8, 0xff])) return images["jpg"];
  if (begins([0x47, 0x49, 0x46, 0x38])) return images["gif"];
  if (begins([0x52, 0x49, 0x46, 0x46]) && begins([0x57, 0x45, 0x42, 0x50], 8)) return images["webp"];
  return undefined;
}
