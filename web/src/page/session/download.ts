// Downloads, by an address with a ticket in it: the browser saves them as they arrive, at any size.
import type { Session } from "belljar-sdk";

/** download lets the browser save a file, or a folder as an archive. */
export async function download({ files }: Session, { path, type }: { path: string; type: string }): Promise<void> {
  // A browser does not report why a download failed.
  if (type === "dir") await files.stat(path || ".");
  else await files.part(path, { maxBytes: 1 });
  const link = document.createElement("a");
  link.href = await (type === "dir" ? files.archiveUrl(path || ".", "zip") : files.url(path));
  link.download = ""; // the server sets the name
  link.click();
}
