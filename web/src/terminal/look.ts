// How a terminal looks: the colours of theme.css, and styles that the page's Content-Security-Policy lets through.
import type { ITheme } from "@xterm/xterm";

const colours: Record<keyof Omit<ITheme, "extendedAnsi">, string> = {
  background: "var(--surface)", foreground: "var(--ink)", cursor: "var(--accent)", cursorAccent: "var(--surface)",
  selectionBackground: "color-mix(in srgb, var(--accent) 30%, var(--surface))", selectionInactiveBackground: "color-mix(in srgb, var(--muted) 30%, var(--surface))",
  selectionForeground: "var(--ink)",
  scrollbarSliderBackground: "color-mix(in srgb, var(--line-strong) 55%, var(--surface))", scrollbarSliderHoverBackground: "var(--line-strong)",
  scrollbarSliderActiveBackground: "var(--line-strong)", overviewRulerBorder: "var(--surface)",
  black: "light-dark(#14191a, #3a4446)", red: "var(--bad)", green: "var(--good)", yellow: "var(--warn)",
  blue: "light-dark(#1d58b0, #82b4ff)", magenta: "light-dark(#86308c, #dd9ee4)", cyan: "var(--accent)", white: "light-dark(#545f61, #cdd6d7)",
  brightBlack: "var(--muted)", brightRed: "light-dark(#c4322e, #ffb8b2)", brightGreen: "light-dark(#217e3e, #97e3ac)", brightYellow: "light-dark(#8d5f05, #f6d590)",
  brightBlue: "light-dark(#2c6bc9, #a6caff)", brightMagenta: "light-dark(#9c41a2, #ebbcf0)", brightCyan: "light-dark(#0d7f79, #8be3da)", brightWhite: "light-dark(#14191a, #ffffff)",
};

/** themeOf is the theme as it is now for an element: xterm knows no CSS variables. */
export function themeOf(place: HTMLElement): ITheme {
  const probe = place.appendChild(document.createElement("span"));
  const theme: ITheme = {};
  for (const [name, colour] of Object.entries(colours)) {
    probe.style.color = colour;
    theme[name as keyof typeof colours] = getComputedStyle(probe).color;
  }
  probe.remove();
  return theme;
}

/** styled does something during which style elements that are made carry the page's nonce. */
export function styled(make: () => void): void {
  const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";
  const create = document.createElement;
  document.createElement = function (this: Document, ...args: Parameters<typeof create>) {
    const made = create.apply(this, args);
    if (made instanceof HTMLStyleElement) made.nonce = nonce;
    return made;
  } as typeof create;
  try {
    make();
  } finally {
    document.createElement = create;
  }
}
