// Scrolling through more rows than an element can be high. Up to `limit` pixels, the scroll bar is exact. Above, it is exact at
// both ends. In between, the bar selects a place, and small movements go pixel by pixel.

/** The height limit is about 17 million pixels in Firefox, 33 million in Chromium. */
export const limit = 10_000_000;
const exact = 1_000_000; // pixels at each end

/** Scroll maps the position of a scroll bar to rows. Positions are in pixels from the top of the first row. */
export class Scroll {
  /** The height of the rows above the view, in pixels. */
  position = 0;
  #top = 0; // of the scroll bar, as last read or set
  #rows = 0;
  #rowHeight = 20;
  #view = 0;

  /** resize sets the number of rows, their height, and that of the view. */
  resize(rows: number, rowHeight: number, view: number): void {
    const row = this.position / this.#rowHeight;
    [this.#rows, this.#rowHeight, this.#view] = [rows, rowHeight, view];
    this.position = clamp(row * rowHeight, this.end);
  }

  /** total returns the height of all rows. */
  get total(): number {
    return this.#rows * this.#rowHeight;
  }

  /** height returns the height of the element that stands for all rows. */
  get height(): number {
    return Math.min(this.total, limit);
  }

  /** end returns the last position. */
  get end(): number {
    return Math.max(0, this.total - this.#view);
  }

  get #topEnd(): number {
    return Math.max(0, this.height - this.#view);
  }

  /** moved takes the scroll bar's position, and reports whether the reader moved it. */
  moved(top: number): boolean {
    const by = top - this.#top;
    if (Math.abs(by) < 1) return false; // the position that was set, rounded
    this.#top = top;
    const small = Math.abs(by) <= 2 * this.#view && top > 0 && top < this.#topEnd - 1;
    this.position = small ? clamp(this.position + by, this.end) : this.positionOf(top);
    return true;
  }

  /** moveTo goes to a position and returns the new position of the scroll bar. */
  moveTo(position: number): number {
    this.position = clamp(position, this.end);
    return this.settle();
  }

  /** settle returns the scroll bar's exact position, for a scroll bar at rest. */
  settle(): number {
    return (this.#top = this.topOf(this.position));
  }

  /** positionOf returns the position of the rows for one of the scroll bar. */
  positionOf(top: number): number {
    const [end, topEnd] = [this.end, this.#topEnd];
    if (end === topEnd) return clamp(top, end);
    if (top <= exact) return Math.max(0, top);
    if (top >= topEnd - exact) return clamp(end - (topEnd - top), end);
    return exact + ((top - exact) * (end - 2 * exact)) / (topEnd - 2 * exact);
  }

  /** topOf returns the scroll bar's position for one of the rows: the inverse of positionOf. */
  topOf(position: number): number {
    const [end, topEnd] = [this.end, this.#topEnd];
    if (end === topEnd || position <= exact) return clamp(position, topEnd);
    if (position >= end - exact) return topEnd - (end - position);
    return exact + ((position - exact) * (topEnd - 2 * exact)) / (end - 2 * exact);
  }

  /** showing returns a position at which a row is in the view, whatever the heights of other rows. */
  showing(row: number): number {
    return this.#rows < 2 ? 0 : (row / (this.#rows - 1)) * this.end;
  }

  /**
   * anchor returns a place in the rows, with its fraction, and its position in the view. It does not need the heights of
   * rows: the first row is at the top of the view at the beginning, and the last at its bottom at the end.
   */
  anchor(): { row: number; y: number } {
    const share = this.end === 0 ? 0 : this.position / this.end;
    return { row: share * this.#rows, y: share * this.#view };
  }
}

function clamp(n: number, most: number): number {
  return Math.min(Math.max(n, 0), most);
}
