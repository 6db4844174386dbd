// Search in a log, block by block. It searches lines as displayed, without their terminal sequences.
import { strip } from "./ansi.ts";
import { Kind, lowerBound, type Lines } from "./lines.ts";

/** A search query. */
export interface Query {
  text: string;
  regexp: boolean;
  /** Whether case matters. */
  matchCase: boolean;
}

/** A part of a log for one search step. */
export interface Block {
  bytes: Uint8Array<ArrayBuffer>;
  /** The starts of its rows within it. */
  starts: Uint32Array<ArrayBuffer>;
}

/** The progress of a search: a row, and how many of its bytes have been searched. */
export interface Place {
  row: number;
  within: number;
}

const blockBytes = 1 << 20;
const overlap = 4096; // between the pieces of a line that is longer than a block

/** expression returns a query as a global regular expression. It throws a SyntaxError for an invalid one. */
export function expression({ text, regexp, matchCase }: Query): RegExp {
  const source = regexp ? text : text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
  return new RegExp(source, `g${matchCase ? "" : "i"}u`);
}

/** ranges returns the matches of an expression in a line, at most a thousand. */
export function ranges(found: RegExp, text: string): [from: number, to: number][] {
  const all: [number, number][] = [];
  found.lastIndex = 0;
  for (let match = found.exec(text); match && all.length < 1000; match = found.exec(text)) {
    if (match[0] === "") found.lastIndex += (text.codePointAt(found.lastIndex) ?? 0) > 0xffff ? 2 : 1;
    else all.push([match.index, match.index + match[0].length]);
    if (found.lastIndex > text.length) break;
  }
  return all;
}

/** block returns the next block to search, and the place after it. */
export function block(lines: Lines, { row, within }: Place, size = blockBytes): { block: Block; next: Place } {
  const from = lines.start(row) + within;
  const end = lines.start(row + 1);
  if (end - from > size) {
    const bytes = lines.read(from, from + size);
    return { block: { bytes, starts: new Uint32Array(1) }, next: { row, within: within + size - overlap } };
  }
  // All rows that end within the block.
  let to = lines.start(lines.rows) - from <= size ? lines.rows : lines.rowAt(from + size);
  if (to <= row) to = row + 1;
  const starts = new Uint32Array(to - row);
  for (let i = 1; i < starts.length; i++) starts[i] = lines.start(row + i) - from;
  return { block: { bytes: lines.read(from, lines.start(to)), starts }, next: { row: to, within: 0 } };
}

/** searchBlock returns the rows of a block that match, counted from its first. */
export function searchBlock({ bytes, starts }: Block, query: Query): number[] {
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  // Each byte is one character, and is displayed unchanged.
  const even = text.length === bytes.length && !/[\x1b\x08]|\r(?!\n)/.test(text);
  if (even && !query.regexp) return literal(text, starts, query);
  const found = expression(query);
  const hits: number[] = [];
  for (let i = 0; i < starts.length; i++) {
    const [from, to] = [starts[i]!, i + 1 < starts.length ? starts[i + 1]! : bytes.length];
    if (from === to) continue; // a mark
    let line = even ? text.slice(from, to) : new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(from, to));
    line = line.replace(/\r?\n$/, "");
    found.lastIndex = 0;
    if (found.test(even ? line : strip(line))) hits.push(i);
  }
  return hits;
}

function literal(text: string, starts: Uint32Array, query: Query): number[] {
  const all = query.matchCase ? text : text.toLowerCase();
  const needle = query.matchCase ? query.text : query.text.toLowerCase();
  const hits: number[] = [];
  for (let at = all.indexOf(needle); at >= 0; ) {
    const row = lowerBound(starts.length, (i) => starts[i]! > at) - 1;
    const end = row + 1 < starts.length ? starts[row + 1]! : all.length;
    if (at + needle.length <= end) hits.push(row);
    at = end >= all.length ? -1 : all.indexOf(needle, at + needle.length <= end ? end : at + 1);
  }
  return hits;
}

/** matchesStream reports whether a row is shown for a choice of stream. Marks always are; a compiler prints to stderr. */
export function matchesStream(kind: Kind, stream: "both" | "stdout" | "stderr"): boolean {
  return stream === "both" || kind === Kind.mark || (stream === "stdout") === (kind === Kind.stdout);
}
