// Downloads, by an address with a ticket in it: the browser saves them as they come, whatever their size.
import { api } from "../../client.svelte.ts";

/** download has the browser save a file, or a folder as an archive. */
export async function download(session: string, entry: { path: string; type: string }): Promise<void> {
  const folder = entry.type === "dir";
  const path = `/api/v1/sandbox/sessions/${encodeURIComponent(session)}/fs/${folder ? "archive" : "raw"}`;
  const url = await api().ticketUrl(path, folder ? { path: entry.path || ".", format: "zip" } : { path: entry.path });
  const link = document.createElement("a");
  link.href = url;
  link.download = ""; // the server names it
  link.click();
}
