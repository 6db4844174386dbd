// A displayed row of a log: styled parts of text.
import { shown as visible } from "../format.ts";
import { Flag, plain, render, type Span, type Style } from "./ansi.ts";
import { readable } from "./contrast.ts";
import { Kind, type Lines } from "./lines.ts";
import { filePlaces } from "./links.ts";
import { ranges } from "./search.ts";

/** A part of a row's text in one style. */
export interface Part {
  text: string;
  /** CSS colours, computed from numbers. */
  fg?: string | undefined;
  bg?: string | undefined;
  flags: number;
  /** Whether it matches the search. */
  hit?: boolean;
  /** The workspace file that it names. */
  file?: { path: string; line: number | undefined };
}

/** A displayed row. */
export interface Row {
  /** The number of the line; 0 for a mark. */
  number: number;
  kind: Kind;
  warn?: boolean;
  parts: Part[];
  /** The number of hidden bytes. */
  cut: number;
  /** Whether the reader has expanded it. */
  open: boolean;
}

/** Bytes of a line to show at first, and when expanded. */
export const shown = 4096;
export const mostShown = 256 << 10;

/** Display options of rows. */
export interface Look {
  /** The search expression. */
  found?: RegExp | undefined;
  /** Whether files of the workspace are linked. */
  files: boolean;
  /** Whether a row is expanded. */
  open: (row: number) => boolean;
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** showRow returns a row, and the initial style of the next row of its stream. */
export function showRow(lines: Lines, row: number, style: Style, look: Look): { row: Row; end: Style } {
  const kind = lines.kind(row);
  const mark = lines.markAt(row);
  if (mark) return { row: { number: 0, kind, warn: mark.warn ?? false, parts: [{ text: visible(mark.text), flags: 0 }], cut: 0, open: false }, end: style };
  const [from, to] = lines.content(row);
  const open = look.open(row);
  const most = open ? mostShown : shown;
  const cut = Math.max(0, to - from - most);
  let bytes = lines.read(from, to - cut);
  if (cut > 0) {
    // For a line that overwrites itself, such as a progress bar, the end is what a terminal would show.
    const end = lines.read(to - most, to);
    const back = end.lastIndexOf(13, end.length - 2);
    if (back >= 0) bytes = end.subarray(Math.max(0, end.lastIndexOf(13, back - 1)));
  }
  const text = decoder.decode(bytes);
  const { spans, end } = render(text, style);
  return { row: { number: lines.number(row), kind, parts: partsOf(spans, look), cut, open }, end: cut > 0 ? plain : end }; // the hidden rest may change it
}

/** styleBefore returns the initial style of a row, as far as the preceding rows determine it. */
export function styleBefore(lines: Lines, row: number, back = 200, most = 256 << 10): Style {
  const kind = lines.kind(row);
  const first = Math.max(0, row - back, lines.rowAt(Math.max(0, lines.start(row) - most)));
  if (first >= row || !lines.read(lines.start(first), Math.min(lines.start(row), lines.start(first) + most)).includes(27)) return plain;
  let style = plain;
  for (let i = first; i < row; i++) {
    if (lines.kind(i) !== kind) continue;
    const [from, to] = lines.content(i);
    style = to - from > shown ? plain : render(decoder.decode(lines.read(from, to)), style).end;
  }
  return style;
}

/** partsOf splits styled text at the edges of hits and links. */
export function partsOf(spans: Span[], look: Pick<Look, "found" | "files">): Part[] {
  const text = spans.map((span) => span.text).join("");
  const hits = look.found ? ranges(look.found, text) : [];
  const files = look.files && text.includes("/workspace/") ? filePlaces(text) : [];
  const parts: Part[] = [];
  let at = 0;
  let [hit, file] = [0, 0];
  for (const span of spans) {
    for (let from = at, end = at + span.text.length; from < end; ) {
      while (hit < hits.length && hits[hit]![1] <= from) hit++;
      while (file < files.length && files[file]!.to <= from) file++;
      const [inHit, inFile] = [hit < hits.length && hits[hit]![0] <= from, file < files.length && files[file]!.from <= from];
      const to = Math.min(end, hits[hit]?.[inHit ? 1 : 0] ?? end, files[file]?.[inFile ? "to" : "from"] ?? end);
      parts.push({
        text: text.slice(from, to), ...looks(span.style), ...(inHit ? { hit: true } : {}),
        ...(inFile ? { file: { path: files[file]!.path, line: files[file]!.line } } : {}),
      });
      from = to;
    }
    at += span.text.length;
  }
  return parts;
}

const looks = ({ fg, bg, flags }: Style): Pick<Part, "fg" | "bg" | "flags"> => ({ ...readable(fg, bg, (flags & Flag.inverse) !== 0), flags });
