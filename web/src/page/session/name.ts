// File names and paths. Programs choose them, so they may contain anything: see shown.

/** baseOf returns the last part of a path. */
export const baseOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

/** folderOf returns the folder of a path; "" is the workspace. */
export const folderOf = (path: string): string => path.slice(0, Math.max(path.lastIndexOf("/"), 0));

/** join returns a path below a folder. */
export const join = (folder: string, name: string): string => (folder && folder !== "." ? `${folder}/${name}` : name);

/** inside reports whether a path is the folder or is below it. */
export const inside = (path: string, folder: string): boolean => path === folder || path.startsWith(`${folder}/`);

/** moved returns a path after `from` was renamed to `to`. */
export const moved = (path: string, from: string, to: string): string => (inside(path, from) ? to + path.slice(from.length) : path);

/** wrongName returns the defect of a new name for the path `of`; undefined if there is none. The name may include folders. */
export function wrongName(name: string, of?: string): string | undefined {
  if (!name.trim()) return "A name is needed.";
  if (name.includes("\0")) return "A name cannot have a NUL in it.";
  if (name.startsWith("/") || name.endsWith("/")) return "A name cannot begin or end with a slash.";
  if (name.split("/").some((part) => part === "" || part === "." || part === "..")) return "A name cannot have an empty part, “.” or “..” in it.";
  if (name.split("/").some((part) => new TextEncoder().encode(part).length > 255)) return "A name has at most 255 bytes.";
  if (of !== undefined && name.startsWith(`${baseOf(of)}/`)) return "Nothing can go into itself.";
  return undefined;
}

const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

/** byName sorts folders first, then by name: a2 comes before a10. */
export function byName(a: { path: string; type: string }, b: { path: string; type: string }): number {
  const folders = Number(b.type === "dir") - Number(a.type === "dir");
  return folders || collator.compare(baseOf(a.path), baseOf(b.path)) || (a.path < b.path ? -1 : 1);
}
