// Links in a log's lines, and links to its lines.

/** The lines of a link, both ends included. */
export interface LineRange {
  from: number;
  to: number;
}

/** lineRange parses `#L120` and `#L120-L140`. It returns undefined for anything else. */
export function lineRange(hash: string): LineRange | undefined {
  const found = /^#L([1-9]\d{0,9})(?:-L?([1-9]\d{0,9}))?$/.exec(hash);
  if (!found) return undefined;
  const [one, other] = [Number(found[1]), Number(found[2] ?? found[1])];
  return { from: Math.min(one, other), to: Math.max(one, other) };
}

/** lineHash returns the fragment of a link to lines. */
export function lineHash({ from, to }: LineRange): string {
  return from === to ? `#L${from}` : `#L${from}-L${to}`;
}

/** A workspace file that a line names, as stack traces do. */
export interface FilePlace {
  from: number;
  to: number;
  /** The path below /workspace. */
  path: string;
  line: number | undefined;
}

const file = /\/workspace\/([^\s"'`<>|:(),;[\]{}]+)(?:", line (\d{1,9})|:(\d{1,9})(?::\d{1,9})?)?/g;

/** filePlaces returns the workspace files that a line names. */
export function filePlaces(text: string): FilePlace[] {
  const all: FilePlace[] = [];
  for (const match of text.matchAll(file)) {
    let path = match[1]!;
    while (/[.!?]$/.test(path)) path = path.slice(0, -1); // punctuation of the surrounding sentence
    if (!path || path.endsWith("/") || path.split("/").includes("..")) continue;
    const line = match[2] ?? match[3];
    const length = line ? match[0].length : "/workspace/".length + path.length;
    all.push({ from: match.index, to: match.index + length, path, line: line ? Number(line) : undefined });
  }
  return all;
}
