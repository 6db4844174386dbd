// The appearance of a terminal: the colours of theme.css, and styles that pass the page's Content-Security-Policy.
import type { ITheme } from "@xterm/xterm";

const colours: Record<keyof Omit<ITheme, "extendedAnsi">, string> = {
  background: "var(--surface)", foreground: "var(--ink)", cursor: "var(--accent)", cursorAccent: "var(--surface)",
  selectionBackground: "color-mix(in srgb, var(--accent) 30%, var(--surface))", selectionInactiveBackground: "color-mix(in srgb, var(--muted) 30%, var(--surface))",
  selectionForeground: "var(--ink)",
  scrollbarSliderBackground: "color-mix(in srgb, var(--line-strong) 55%, var(--surface))", scrollbarSliderHoverBackground: "var(--line-strong)",
  scrollbarSliderActiveBackground: "var(--line-strong)", overviewRulerBorder: "var(--surface)",
  black: "var(--ansi-0)", red: "var(--ansi-1)", green: "var(--ansi-2)", yellow: "var(--ansi-3)",
  blue: "var(--ansi-4)", magenta: "var(--ansi-5)", cyan: "var(--ansi-6)", white: "var(--ansi-7)",
  brightBlack: "var(--ansi-8)", brightRed: "var(--ansi-9)", brightGreen: "var(--ansi-10)", brightYellow: "var(--ansi-11)",
  brightBlue: "var(--ansi-12)", brightMagenta: "var(--ansi-13)", brightCyan: "var(--ansi-14)", brightWhite: "var(--ansi-15)",
};

/** themeOf returns an element's current theme: xterm does not support CSS variables. */
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

/** styled calls a function. Style elements that it makes get the page's nonce. */
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

let fast: boolean | undefined;

/** fastGraphics reports whether a graphics processor draws WebGL. With software rendering, elements are several times as fast. */
export function fastGraphics(): boolean {
  if (fast !== undefined) return fast;
  const probe = document.createElement("canvas").getContext("webgl2", { failIfMajorPerformanceCaveat: true });
  // Chromium does not report SwiftShader as a caveat.
  const info = probe?.getExtension("WEBGL_debug_renderer_info");
  const name = info ? String(probe!.getParameter(info.UNMASKED_RENDERER_WEBGL)) : "";
  fast = probe != null && !/swiftshader|llvmpipe|softpipe|software|basic render/i.test(name);
  probe?.getExtension("WEBGL_lose_context")?.loseContext();
  return fast;
}
