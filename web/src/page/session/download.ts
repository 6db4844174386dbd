// Downloads by an address with a ticket: the browser saves them as a stream, whatever their size.
import type { Session } from "belljar-sdk";

/** download makes the browser save a file, or a folder as an archive. */
export async function download({ files }: Session, { path, type }: { path: string; type: string }): Promise<void> {
  // A browser does not report why a download failed, so check first.
  if (type === "dir") await files.stat(path || ".");
  else await files.part(path, { maxBytes: 1 });
  const link = document.createElement("a");
  link.href = await (type === "dir" ? files.archiveUrl(path || ".", "zip") : files.url(path));
  link.download = ""; // the server sets the name
  link.click();
}
