// Colours of text in a log that can be read. Programs choose colours for a terminal whose palette and background differ from the page's. As the page's
// terminals do, a log keeps a background, and moves a foreground that is too close to it towards white or black.
import { colour, hex, rgbOf } from "./ansi.ts";

/** Colours of theme.css, in the light and in the dark theme. */
export const themed = {
  surface: [0xffffff, 0x151b1c], ink: [0x14191a, 0xe4eaea],
  ansi: [
    [0x14191a, 0x8b9899], [0xa8201d, 0xff8f84], [0x1a6b34, 0x74d191], [0x7a5100, 0xe3b860], [0x1f57b5, 0x85b4ff], [0x8a2a8f, 0xe09be6], [0x0a6670, 0x5fcbd8], [0x5d686a, 0xcdd5d5],
    [0x5d686a, 0x94a1a3], [0xc22a26, 0xffa79e], [0x1f7a3d, 0x93e0aa], [0x855a00, 0xf2cf85], [0x2a66cc, 0xa6c8ff], [0x9c36a1, 0xedb6f1], [0x0d737e, 0x86dde7], [0x3d4749, 0xf4f8f8],
  ],
} as const;

const least = 4.5; // WCAG AA
const leastOnPage = 5.3; // lines of stderr, selected lines and hits have a tint, which lowers it

/** readable returns the CSS colours of a foreground and a background as {@link colour} takes them; undefined for the page's own. */
export function readable(fg: number, bg: number, inverse: boolean): { fg: string | undefined; bg: string | undefined } {
  if (!inverse && bg < 0 && fg < 16) return { fg: colour(fg), bg: undefined }; // the page's own colours
  const [front, back] = inverse ? [bg, fg] : [fg, bg];
  const [ink, surface] = inverse ? (["surface", "ink"] as const) : (["ink", "surface"] as const);
  const shown = { fg: colour(front) ?? `var(--${ink})`, bg: colour(back) ?? (inverse ? `var(--${surface})` : undefined) };
  const own = [0, 1].map((theme) => at(front, ink, theme));
  const seen = own.map((n, theme) => apart(n, at(back, surface, theme), back < 0 && !inverse ? leastOnPage : least));
  if (seen.every((n, theme) => n === own[theme])) return shown;
  const [light, dark] = seen.map(hex);
  return { ...shown, fg: light === dark ? light : `light-dark(${light}, ${dark})` };
}

const at = (n: number, none: "ink" | "surface", theme: number): number => (n < 0 ? themed[none] : n < 16 ? themed.ansi[n]! : [rgbOf(n), rgbOf(n)])[theme]!;

// apart returns the first colour on the way from a foreground to white or black that has the contrast.
function apart(fg: number, bg: number, contrast: number): number {
  const end = contrastOf(0xffffff, bg) > contrastOf(0, bg) ? 255 : 0;
  for (let step = 0; ; step++) {
    const mixed = channels(fg).reduce((sum, n) => sum * 256 + Math.round(n + ((end - n) * step) / 10), 0);
    if (step === 10 || contrastOf(mixed, bg) >= contrast) return mixed;
  }
}

/** contrastOf returns the contrast of two colours, 1 to 21, as WCAG defines it. */
export function contrastOf(a: number, b: number): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high! + 0.05) / (low! + 0.05);
}

const channels = (n: number): number[] => [n >> 16, (n >> 8) & 255, n & 255];
const linear = Float64Array.from({ length: 256 }, (_, n) => (n <= 10 ? n / 255 / 12.92 : ((n / 255 + 0.055) / 1.055) ** 2.4));

function luminance(n: number): number {
  const [r, g, b] = channels(n);
  return 0.2126 * linear[r!]! + 0.7152 * linear[g!]! + 0.0722 * linear[b!]!;
}
