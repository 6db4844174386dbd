// Converts terminal sequences in a line of a log to styled text. No part of a program's output becomes markup: the result is text, small numbers, and
// colours computed from those numbers.

/** The style of text. Equal styles of one line are the same object. */
export interface Style {
  /** -1 is the page's own colour; 0-255 is the palette; from `rgb` on it is rgb + 0xRRGGBB. */
  readonly fg: number;
  readonly bg: number;
  /** Bits, see {@link Flag}. */
  readonly flags: number;
}

export interface Span {
  text: string;
  style: Style;
}

export const Flag = { bold: 1, dim: 2, italic: 4, underline: 8, inverse: 16, strike: 32, hidden: 64 } as const;

export const plain: Style = { fg: -1, bg: -1, flags: 0 };

const rgb = 0x1000000;

// Control characters except the tab, and characters that change the direction of text.
const special = /[\0-\x08\n-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;
const csi = /\[([0-?]{0,64})[ -/]{0,8}([@-~])/y;
const short = /[ -/]{0,8}[0-~]/y;
const longest = /[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)/y; // OSC, DCS, SOS, PM, APC

/** render returns a line as styled text, and the initial style of the next line. Its time is proportional to the length of the text. */
export function render(text: string, start: Style = plain): { spans: Span[]; end: Style } {
  let length = text.length;
  while (length > 0 && text.charCodeAt(length - 1) === 13) length--; // a line may end in CR LF
  text = text.slice(0, length);
  const line: Run | Cells = /[\r\x08]|\x1b\[[12]K/.test(text) ? new Cells() : new Run();
  let style = start;
  for (let at = 0; at < text.length; ) {
    special.lastIndex = at;
    const next = special.exec(text)?.index ?? text.length;
    if (next > at) line.write(text.slice(at, next), style);
    if (next === text.length) break;
    at = next + 1;
    const code = text.charCodeAt(next);
    if (code === 13) line.move(-Infinity);
    else if (code === 8) line.move(-1);
    else if (code === 27) [at, style] = escape(text, at, line, style);
    else if (code !== 7) line.write(picture(code), style);
  }
  return { spans: line.spans(), end: style };
}

/** strip returns a line without its sequences, for the search. */
export function strip(text: string): string {
  return render(text).spans.map((span) => span.text).join("");
}

/** colour returns the CSS colour of a number in a style; undefined for the page's own. */
export function colour(n: number): string | undefined {
  return n < 0 ? undefined : n < 16 ? `var(--ansi-${n})` : hex(rgbOf(n));
}

/** rgbOf returns a colour that no theme changes, from 16 on, as 0xRRGGBB. */
export function rgbOf(n: number): number {
  if (n >= rgb) return n - rgb;
  if (n >= 232) return (8 + 10 * (n - 232)) * 0x010101;
  const step = (i: number) => (i === 0 ? 0 : 55 + 40 * i);
  return (step(Math.floor((n - 16) / 36)) * 256 + step(Math.floor((n - 16) / 6) % 6)) * 256 + step((n - 16) % 6);
}

/** hex returns 0xRRGGBB for CSS. */
export const hex = (n: number): string => `#${n.toString(16).padStart(6, "0")}`;

// picture returns a visible symbol for a control character.
function picture(code: number): string {
  return code < 32 ? String.fromCharCode(0x2400 + code) : code === 127 ? "\u2421" : "\ufffd";
}

// escape reads a sequence whose ESC is before `at`. From an incomplete sequence it drops only the ESC: nothing can hide the rest of a line.
function escape(text: string, at: number, line: Run | Cells, style: Style): [at: number, style: Style] {
  csi.lastIndex = longest.lastIndex = short.lastIndex = at;
  const found = csi.exec(text);
  if (found) {
    if (found[2] === "m") style = sgr(style, found[1]!);
    else if (found[2] === "K") line.erase(found[1]!);
    return [csi.lastIndex, style];
  }
  if (/[\]PX^_]/.test(text.charAt(at))) return [longest.test(text) ? longest.lastIndex : at + 1, style];
  if (text[at] === "[") return [at + 1, style];
  if (text[at] === "c") style = plain;
  return [short.test(text) ? short.lastIndex : at, style];
}

const on: Record<number, number> = { 1: Flag.bold, 2: Flag.dim, 3: Flag.italic, 7: Flag.inverse, 8: Flag.hidden, 9: Flag.strike, 21: Flag.underline };
const off: Record<number, number> = { 22: Flag.bold | Flag.dim, 23: Flag.italic, 24: Flag.underline, 27: Flag.inverse, 28: Flag.hidden, 29: Flag.strike };

function sgr(style: Style, parameters: string): Style {
  if (/^[<-?]/.test(parameters)) return style; // private: about the terminal's keys
  let { fg, bg, flags } = style;
  const fields = parameters.split(";");
  for (let i = 0; i < fields.length; i++) {
    const [code = 0, ...sub] = fields[i]!.split(":").map(Number);
    const apart = sub.length === 0;
    if (code === 38 || code === 48 || code === 58) {
      const parts = apart ? fields.slice(i + 1, i + 5).map(Number) : sub;
      if (!apart && sub[0] === 2 && sub.length > 4) parts.splice(1, 1); // the colour space
      const value = colourOf(parts);
      if (value === undefined && apart) break;
      if (value !== undefined && code === 38) fg = value;
      else if (value !== undefined && code === 48) bg = value;
      if (apart) i += parts[0] === 2 ? 4 : 2;
    } else if (code === 4) flags = sub[0] === 0 && fields[i] !== "4:" ? flags & ~Flag.underline : flags | Flag.underline; // 4:3 is a wave
    else if (!apart) continue;
    else if (code === 0) [fg, bg, flags] = [-1, -1, 0];
    else if (on[code]) flags |= on[code];
    else if (off[code]) flags &= ~off[code];
    else if (code >= 30 && code <= 37) fg = code - 30;
    else if (code >= 40 && code <= 47) bg = code - 40;
    else if (code >= 90 && code <= 97) fg = code - 82;
    else if (code >= 100 && code <= 107) bg = code - 92;
    else if (code === 39) fg = -1;
    else if (code === 49) bg = -1;
  }
  return fg === style.fg && bg === style.bg && flags === style.flags ? style : { fg, bg, flags };
}

// colourOf returns the colour of 2, r, g, b or 5, n; undefined for others.
function colourOf([kind, ...parts]: number[]): number | undefined {
  const [r, g, b] = parts;
  const known = (kind === 5 ? [r] : kind === 2 ? [r, g, b] : [-1]).every((n) => n !== undefined && n >= 0 && n <= 255);
  return known ? (kind === 5 ? r! : rgb + r! * 65536 + g! * 256 + b!) : undefined;
}

// Run is a line without overwriting: text is only appended.
class Run {
  #spans: Span[] = [];

  write(text: string, style: Style): void {
    const last = this.#spans.at(-1);
    if (last?.style === style) last.text += text;
    else this.#spans.push({ text, style });
  }

  move(_by: number): void {}
  erase(_what: string): void {}
  spans = (): Span[] => this.#spans;
}

// Cells is a line with overwritten characters.
class Cells {
  #units: string[] = [];
  #styles: Style[] = [];
  #column = 0;

  write(text: string, style: Style): void {
    for (; this.#units.length < this.#column; this.#styles.push(plain)) this.#units.push(" ");
    for (const char of text) { // by code points
      this.#units[this.#column] = char;
      this.#styles[this.#column++] = style;
    }
  }

  move(by: number): void {
    this.#column = Math.max(0, this.#column + by);
  }

  erase(what: string): void {
    if (what === "" || what === "0") this.#units.length = this.#styles.length = Math.min(this.#column, this.#units.length);
    else if (what === "2") this.#units.length = this.#styles.length = 0;
    else {
      this.#units.fill(" ", 0, Math.min(this.#column + 1, this.#units.length));
      this.#styles.fill(plain, 0, Math.min(this.#column + 1, this.#units.length));
    }
  }

  spans(): Span[] {
    const run = new Run();
    for (let from = 0, i = 1; from < this.#units.length; i++) {
      if (i < this.#units.length && this.#styles[i] === this.#styles[from]) continue;
      run.write(this.#units.slice(from, i).join(""), this.#styles[from]!);
      from = i;
    }
    return run.spans();
  }
}
