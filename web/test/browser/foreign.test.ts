// Pages of other origins, in the same browser: they cannot read, write, frame or open streams.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { atEnd, visit, type Owner, type Visit } from "./world.ts";

/** stranger serves a page at another port, and as `localhost` at another host. */
async function stranger(t: Owner): Promise<number> {
  const server = createServer((_, response) => response.setHeader("Content-Type", "text/html").end("<!doctype html><title>stranger</title><h1>stranger</h1>"));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  atEnd(t, () => void server.close());
  return (server.address() as AddressInfo).port;
}

/** socket returns the result of opening a WebSocket from the current page. */
const socket = (v: Visit, url: string) =>
  v.page.evaluate((address) => new Promise<string>((resolve) => {
    const ws = new WebSocket(address);
    ws.onopen = () => { ws.close(); resolve("open"); };
    ws.onerror = () => resolve("refused");
  }), url);

for (const host of ["127.0.0.1", "localhost"]) {
  test(`a page of ${host} at another port can do nothing`, async (t) => {
    const v = await visit(t);
    await v.open("sandbox/runs"); // signed in, in the same browser
    const { id } = await v.api.runs.start({ command: ["sleep", "300"] });
    atEnd(t, () => v.api.runs.cancel(id));
    const stream = async () => (await v.api.ticketUrl(`/api/v1/sandbox/runs/${id}/stream`)).replace(/^http/, "ws");
    assert.equal(await socket(v, await stream()), "open", "the page itself can listen");

    v.allow(/Access to fetch|Failed to load resource|WebSocket connection|Refused to (frame|display)|Framing/);
    await v.page.goto(`http://${host}:${await stranger(t)}/`);
    const api = `${v.place.url}/api/v1/sandbox`;
    const fetched = (init: { method?: string; mode?: "no-cors"; credentials: "include"; headers?: Record<string, string>; body?: string }) => v.page.evaluate(async ([url, with_]) => fetch(url, with_).then((r) => r.type, () => "refused"), [`${api}/runs`, init] as const);
    assert.equal(await fetched({ credentials: "include" }), "refused", "read");
    assert.equal(await fetched({ credentials: "include", headers: { Authorization: "Bearer x" } }), "refused", "read with a header");
    assert.equal(await fetched({ method: "POST", mode: "no-cors", credentials: "include", body: JSON.stringify({ base_image: "host", command: ["true"] }) }), "opaque", "sent blindly");
    assert.equal((await v.api.runs.list()).total, 1, "and not carried out");

    // Even with a valid ticket.
    assert.equal(await socket(v, await stream()), "refused", "listen");

    const frame = await v.page.evaluate(async (url) => {
      const element = document.body.appendChild(document.createElement("iframe"));
      const loaded = new Promise((resolve) => element.addEventListener("load", resolve));
      element.src = url;
      await loaded;
      try {
        return element.contentDocument?.body.textContent ?? "nothing";
      } catch {
        return "of others";
      }
    }, `${v.place.url}/webui/sandbox/runs`);
    assert.match(frame, /nothing|of others/);
    await v.page.frames().find((one) => one !== v.page.mainFrame())!.waitForURL(/^chrome-error:/, { waitUntil: "commit" }); // the load event comes earlier
    const framed = v.page.frames().filter((one) => one !== v.page.mainFrame()).map((one) => one.url());
    assert.deepEqual(framed, ["chrome-error://chromewebdata/"], "a frame of the page is refused");

    const [popup] = await Promise.all([v.context.waitForEvent("page"), v.page.evaluate((url) => void Object.assign(window, { opened: window.open(url) }), `${v.place.url}/webui/sandbox/runs`)]);
    await popup.locator("main h1").waitFor();
    assert.equal(await v.page.evaluate(() => (window as unknown as { opened: Window }).opened.closed), true, "a window of the page has no opener");
  });
}
