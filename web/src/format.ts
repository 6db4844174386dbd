// Figures and times in readable form. The browser's formatters (Intl) are not used: the first one takes 20 to 40 ms to start, while a page opens.

/** bytes formats a size: 0 B, 1.5 KiB, 20 MiB. */
export function bytes(n: number | undefined): string {
  if (n === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${unit === 0 || n >= 100 ? Math.round(n) : Number(n.toFixed(1))} ${units[unit]}`;
}

/** duration formats a time span: 8 ms, 1.2 s, 3 min 4 s, 2 h 5 min. */
export function duration(ms: number): string {
  if (ms < 0) ms = 0;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 59.5) return `${Math.round(s)} s`;
  const min = Math.floor(Math.max(s, 60) / 60);
  if (min < 60) return `${min} min${rest(s < 60 ? 0 : Math.floor(s % 60), "s")}`;
  const h = Math.floor(min / 60);
  if (h < 48) return `${h} h${rest(min % 60, "min")}`;
  return `${Math.floor(h / 24)} days`;
}

const rest = (n: number, unit: string): string => (n === 0 ? "" : ` ${n} ${unit}`);

/** ago formats the time since a moment; "in 5 min" for the future. */
export function ago(time: string | null | undefined, now = Date.now()): string {
  if (!time) return "–";
  const ms = now - Date.parse(time);
  const span = (n: number) => (n < 60_000 ? `${Math.max(1, Math.round(n / 1000))} s` : n < 3_600_000 ? `${Math.round(n / 60_000)} min`
    : n < 172_800_000 ? `${Math.round(n / 3_600_000)} h` : `${Math.round(n / 86_400_000)} days`);
  if (ms < 0) return `in ${span(-ms)}`;
  return ms < 1500 ? "just now" : `${span(ms)} ago`;
}

/** moment formats a time in full, in the reader's own zone: 2026-11-27 14:05:09. */
export function moment(time: string | null | undefined): string {
  if (!time) return "–";
  const at = new Date(time);
  const two = (n: number) => String(n).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** number formats a number with thousands separators: 1,250,000. */
export function number(n: number): string {
  const [whole, part] = String(n).split(".");
  return whole!.replace(/\B(?=(?:\d{3})+$)/g, ",") + (part ? `.${part}` : "");
}

/** count formats a number with its noun: 1 file, 1,200 files. */
export function count(n: number, one: string, many = `${one}s`): string {
  return `${number(n)} ${n === 1 ? one : many}`;
}

/** shortId returns the distinctive part of an id: the end of a UUIDv7 is random. */
export function shortId(id: string): string {
  return id.length > 12 ? `…${id.slice(-8)}` : id;
}

/** shellLine formats an argument list as a shell command. */
export function shellLine(args: readonly string[]): string {
  return args.map((arg) => (/^[\w@%+=:,./-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", `'\\''`)}'`)).join(" ");
}

/** The characters that have no picture, or change the place of others: also the fillers that Unicode counts among letters and marks. */
export const unseen = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\u034f\u115f\u1160\u17b4\u17b5\u2065\u3164\uffa0\ufff0-\ufff8]/gu;

/** shown returns a name with every character visible: a line break is ⟨000A⟩, a direction override is ⟨202E⟩. */
export function shown(name: string): string {
  return name.replace(unseen, (c) => `⟨${c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** shownText makes every character of a text visible except line breaks and tabs. */
export const shownText = (text: string): string => text.replace(/[^\n\t]+/g, shown);

/** upright makes the direction overrides in a program's text visible, so that it does not read as something else. */
export const upright = (text: string): string => text.replace(/[\u202a-\u202e\u2066-\u2069]/g, shown);
