// The bytes of a log, and the positions of its lines.

/** The kind of a row: output of the program, of its compiler, or a mark that the page has added. */
export const Kind = { stdout: 0, stderr: 1, build: 2, mark: 3 } as const;
export type Kind = (typeof Kind)[keyof typeof Kind];

/** A sentence between two lines: an event, or missing output. */
export interface Mark {
  text: string;
  /** Whether something is missing or was denied. */
  warn?: boolean;
}

const chunkBits = 20;
const chunkSize = 1 << chunkBits;

/** The maximum bytes of a log that a page keeps. */
export const mostBytes = 2 ** 31;

/**
 * Lines is a growing log. A row is a line of one stream, or a mark. A line ends at its newline, or where the other
 * stream, or a mark, interrupts it.
 */
export class Lines {
  /** Bytes of output. */
  size = 0;
  /** The number of rows; the last one may still grow. */
  rows = 0;
  #chunks: Uint8Array[] = [];
  #offsets = new Uint32Array(1024);
  #kinds = new Uint8Array(1024);
  #open: Kind | undefined; // the kind of the last row, until its line ends
  #marks = new Map<number, Mark>();
  #markRows: number[] = [];

  /** append adds output. It returns false if the page cannot keep more. */
  append(bytes: Uint8Array, kind: Kind): boolean {
    if (this.size + bytes.length > mostBytes) return false;
    for (let from = 0; from < bytes.length; ) {
      if (this.#open !== kind) this.#row(this.size + from, kind);
      const end = bytes.indexOf(10, from);
      this.#open = end < 0 ? kind : undefined;
      from = end < 0 ? bytes.length : end + 1;
    }
    for (let from = 0; from < bytes.length; ) {
      const place = this.size & (chunkSize - 1);
      if (place === 0) this.#chunks.push(new Uint8Array(chunkSize));
      const part = bytes.subarray(from, from + chunkSize - place);
      this.#chunks.at(-1)!.set(part, place);
      this.size += part.length;
      from += part.length;
    }
    return true;
  }

  /** mark adds a mark at the end. */
  mark(mark: Mark): void {
    this.#marks.set(this.rows, mark);
    this.#markRows.push(this.rows);
    this.#row(this.size, Kind.mark);
    this.#open = undefined;
  }

  /** lines returns the number of lines of output. */
  get lines(): number {
    return this.rows - this.#markRows.length;
  }

  kind(row: number): Kind {
    return this.#kinds[row] as Kind;
  }

  markAt(row: number): Mark | undefined {
    return this.#marks.get(row);
  }

  /** start returns the start of a row in the output, or the end of the output for the row after the last. */
  start(row: number): number {
    return row < this.rows ? this.#offsets[row]! : this.size;
  }

  /** number returns the number of a line, from 1; 0 for a mark. */
  number(row: number): number {
    return this.kind(row) === Kind.mark ? 0 : row + 1 - lowerBound(this.#markRows.length, (i) => this.#markRows[i]! >= row);
  }

  /** rowOf returns the row of a line's number; undefined if that line has not arrived. */
  rowOf(number: number): number | undefined {
    if (!(number >= 1 && number <= this.lines)) return undefined;
    // Marks before the line are those with fewer lines before them.
    return number - 1 + lowerBound(this.#markRows.length, (i) => this.#markRows[i]! - i >= number);
  }

  /** rowAt returns the row that contains a byte of the output. */
  rowAt(offset: number): number {
    return lowerBound(this.rows, (row) => this.#offsets[row]! > offset) - 1;
  }

  /** content returns the range of a line's bytes, without its newline. */
  content(row: number): [from: number, to: number] {
    const from = this.start(row);
    const to = this.start(row + 1);
    return [from, to > from && this.#byte(to - 1) === 10 ? to - 1 : to];
  }

  #byte(at: number): number {
    return this.#chunks[at >>> chunkBits]![at & (chunkSize - 1)]!;
  }

  /** read copies a range of the output. */
  read(from: number, to: number): Uint8Array<ArrayBuffer> {
    const out = new Uint8Array(Math.max(to - from, 0));
    for (let at = from; at < to; ) {
      const place = at & (chunkSize - 1);
      const part = this.#chunks[at >>> chunkBits]!.subarray(place, Math.min(chunkSize, place + to - at));
      out.set(part, at - from);
      at += part.length;
    }
    return out;
  }

  #row(offset: number, kind: Kind): void {
    if (this.rows === this.#offsets.length) {
      const length = Math.ceil(this.rows * 1.25);
      const offsets = new Uint32Array(length);
      offsets.set(this.#offsets);
      const kinds = new Uint8Array(length);
      kinds.set(this.#kinds);
      [this.#offsets, this.#kinds] = [offsets, kinds];
    }
    this.#offsets[this.rows] = offset;
    this.#kinds[this.rows++] = kind;
  }
}

/** lowerBound returns the first i below n for which `is` is true; n if there is none. `is` must stay true once it is true. */
export function lowerBound(n: number, is: (i: number) => boolean): number {
  let low = 0;
  for (let high = n; low < high; ) {
    const middle = Math.floor((low + high) / 2);
    if (is(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
