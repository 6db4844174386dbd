// Names of files as they are put together. They are a program's choice, so that anything can be in them: see shown.

/** baseOf is the last part of a path. */
export const baseOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

/** folderOf is the folder that a path is in; "" is the workspace. */
export const folderOf = (path: string): string => path.slice(0, Math.max(path.lastIndexOf("/"), 0));

/** join is a path below a folder. */
export const join = (folder: string, name: string): string => (folder && folder !== "." ? `${folder}/${name}` : name);

/** inside tells whether a path is a folder's, or the folder itself. */
export const inside = (path: string, folder: string): boolean => path === folder || path.startsWith(`${folder}/`);

/** moved is where a path is once `from` has become `to`. */
export const moved = (path: string, from: string, to: string): string => (inside(path, from) ? to + path.slice(from.length) : path);

/** wrongName says what is wrong with a new name, for what has the path `of`; undefined if nothing is. It may have folders in front. */
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

/** byName puts folders first, then sorts by name: a2 comes before a10. */
export function byName(a: { path: string; type: string }, b: { path: string; type: string }): number {
  const folders = Number(b.type === "dir") - Number(a.type === "dir");
  return folders || collator.compare(baseOf(a.path), baseOf(b.path)) || (a.path < b.path ? -1 : 1);
}
