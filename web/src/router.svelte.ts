// The address of the page is its state: it determines the view, and every state has a link.

/** The path of the pages: /webui/, after the path of SANDBOX_PUBLIC_URL. */
const base = new URL(document.baseURI).pathname.replace(/[^/]*$/, "");

/** The current page. */
export const place = $state({ path: pathOf(location), query: new URLSearchParams(location.search), hash: location.hash });

function pathOf(at: Location | URL): string {
  return at.pathname.startsWith(base) ? at.pathname.slice(base.length).replace(/\/+$/, "") : "";
}

/** href returns the address of a page, such as `sandbox/runs`. */
export function href(path: string): string {
  return base + path;
}

/** runHref returns the address of a run's page. */
export const runHref = (id: string): string => href(`sandbox/runs/${encodeURIComponent(id)}`);

/** sessionHref returns the address of a session's page. */
export const sessionHref = (id: string): string => href(`sandbox/sessions/${encodeURIComponent(id)}`);

/** fileHref returns the address of a file in the editor of a session's page. The path is below the workspace. */
export const fileHref = (id: string, path: string, line?: number): string =>
  `${sessionHref(id)}?${new URLSearchParams({ file: path, ...(line ? { line: String(line) } : {}) })}`;

const guards = new Set<() => boolean>();
let shown = location.href;

/** guard calls leave before another page is shown, while the calling component is shown. If leave returns false, the page stays. */
export function guard(leave: () => boolean): void {
  $effect(() => {
    guards.add(leave);
    return () => void guards.delete(leave);
  });
}

const mayLeave = (): boolean => [...guards].every((leave) => leave());

/** go shows a page, as a link to it would. With `replace`, the back button skips the present one. */
export function go(to: string, options: { replace?: boolean } = {}): void {
  const at = new URL(to, location.href);
  if (pathOf(at) !== place.path && !mayLeave()) return;
  if (!options.replace) history.replaceState({ y: window.scrollY }, "");
  history[options.replace ? "replaceState" : "pushState"](null, "", at);
  const moved = pathOf(at) !== place.path;
  read();
  if (moved && !options.replace) {
    window.scrollTo(0, 0);
    arrive();
  }
}

/** arrive makes screen readers begin at the new page's heading. */
function arrive(): void {
  queueMicrotask(() => document.querySelector<HTMLElement>("main")?.focus({ preventScroll: true }));
}

/** scrollBack restores the scroll position of a page, once it is long enough again, unless the user acts first. */
function scrollBack(y: number): void {
  const stop = new AbortController();
  const page = new ResizeObserver(() => {
    if (document.documentElement.scrollHeight < y + window.innerHeight) return;
    window.scrollTo(0, y);
    stop.abort();
  });
  stop.signal.addEventListener("abort", () => page.disconnect());
  for (const event of ["wheel", "pointerdown", "keydown", "popstate"]) window.addEventListener(event, () => stop.abort(), { once: true, signal: stop.signal });
  page.observe(document.body);
}

/** setQuery changes the query of the address. It removes values that are undefined or empty. */
export function setQuery(values: Record<string, string | undefined>): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  go(location.pathname + (text ? `?${text}` : "") + location.hash, { replace: true });
}

function read(): void {
  shown = location.href;
  place.path = pathOf(location);
  place.query = new URLSearchParams(location.search);
  place.hash = location.hash;
}

window.addEventListener("popstate", ({ state }) => {
  const moved = pathOf(location) !== place.path;
  if (moved && !mayLeave()) return history.pushState(null, "", shown);
  read();
  if (!moved) return;
  arrive();
  const y: unknown = state?.y;
  if (typeof y === "number" && y > 0) scrollBack(y);
});
window.addEventListener("hashchange", read);
document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element).closest?.("a");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (!link.pathname.startsWith(base)) return;
  event.preventDefault();
  go(link.href);
});
