// Terminals in the page: they survive reloads, restarts and any output of programs.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Locator, Page } from "playwright-core";
import { soak } from "./tier.ts";
import { picture, serve, until, visit, type Visit, type VisitOptions } from "./world.ts";

/** A terminal in a session's page. */
class Screen {
  constructor(readonly page: Page) {}
  get rows(): Locator { return this.page.locator(".xterm-rows:visible"); }
  get strip(): Locator { return this.page.locator(".terminal:visible .strip"); }
  async text(): Promise<string> { return (await this.rows.innerText()).replaceAll("\u00a0", " "); }
  /** shows waits for a text. */
  async shows(what: RegExp): Promise<void> {
    await this.page.waitForFunction(({ source, flags }) => {
      const rows = [...document.querySelectorAll<HTMLElement>(".xterm-rows")].find((one) => one.checkVisibility());
      return rows && new RegExp(source, flags).test(rows.innerText.replaceAll("\u00a0", " "));
    }, { source: what.source, flags: what.flags }, { polling: 50 }).catch(async (error: Error) => {
      throw new Error(`the terminal does not show ${what}: ${error.message}: ${await this.text()}`);
    });
  }
  async type(text: string): Promise<void> {
    await this.page.locator(".terminal:visible .xterm-screen").click();
    await this.page.keyboard.type(text);
  }
  /** run types a command and waits for its mark, which the typed command itself does not contain. */
  async run(command: string): Promise<void> {
    const mark = String(Math.floor(Math.random() * 1e9));
    await this.page.locator(".terminal:visible .xterm-screen").click();
    await this.page.keyboard.insertText(`${command}; echo "<"${mark}">"`); // ten times as fast as typing
    await this.page.keyboard.press("Enter");
    await this.shows(new RegExp(`<${mark}>`));
  }
}

async function begin(t: Parameters<typeof visit>[0], options?: VisitOptions): Promise<{ v: Visit; id: string; screen: Screen; open: () => Promise<void> }> {
  const v = await visit(t, options);
  // Draws with DOM elements, so that the test can read the screen.
  await v.inject(() => {
    const context = HTMLCanvasElement.prototype.getContext as (this: HTMLCanvasElement, kind: string, ...rest: unknown[]) => unknown;
    HTMLCanvasElement.prototype.getContext = function (this: HTMLCanvasElement, kind: string, ...rest: unknown[]) {
      return kind.startsWith("webgl") ? null : context.call(this, kind, ...rest);
    } as typeof HTMLCanvasElement.prototype.getContext;
  });
  const { id } = await v.api.sessions.create({ base_image: "host" });
  await v.open(`sandbox/sessions/${id}`);
  const screen = new Screen(v.page);
  return { v, id, screen, open: async () => {
    await v.page.getByRole("button", { name: "Open a terminal" }).click();
    await screen.shows(/\$ /);
  } };
}

test("a terminal that was opened elsewhere is listed, and one that was ended here is not", async (t) => {
  const { v, id, open } = await begin(t);
  await open();
  await v.page.mouse.move(0, 0);
  const other = await v.api.terminals.open(id, { name: "elsewhere" });
  await v.page.locator(".terminals").hover();
  const tab = v.page.getByRole("tab", { name: "elsewhere" });
  await tab.waitFor();
  assert.equal(await tab.getAttribute("aria-selected"), "false");
  await other.close();
  let end = () => {};
  const held = new Promise<void>((resolve) => (end = resolve));
  await v.page.route(/terminals\//, (route) => (route.request().method() === "DELETE" ? void held.then(() => route.continue()) : route.continue()));
  await tab.press("Delete");
  await v.page.getByRole("button", { name: "End it" }).press("Enter");
  await tab.waitFor({ state: "detached" });
  const listed = v.page.waitForResponse((answer) => answer.request().method() === "GET" && /terminals/.test(answer.url()));
  await v.page.evaluate(() => dispatchEvent(new Event("focus")));
  await listed;
  await v.page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
  assert.equal(await tab.count(), 0);
  end();
});

test("terminals live in tabs, survive a reload, and end with a status", async (t) => {
  const { v, id, screen } = await begin(t);
  let admit = () => {};
  const admitted = new Promise<void>((resolve) => (admit = resolve));
  await v.page.routeWebSocket(/terminal/, (socket) => void admitted.then(() => socket.connectToServer()));
  await v.page.getByRole("button", { name: "Open a terminal" }).click();
  await screen.type("echo early $((6*7))\n"); // input before the terminal is connected
  admit();
  await screen.shows(/early 42/);
  await screen.run("x=kept; echo first");
  await v.page.getByRole("button", { name: "New terminal" }).click();
  await v.page.getByRole("tab", { name: "Terminal 2" }).waitFor();
  await screen.shows(/\$ /);
  await screen.run("echo second");
  assert.doesNotMatch(await screen.text(), /first/);
  await picture(v.page, "terminals");

  // With more tabs than fit, the new one is visible.
  const size = v.page.viewportSize()!;
  await v.page.setViewportSize({ ...size, width: 320 });
  for (const n of [3, 4, 5]) {
    await v.page.getByRole("button", { name: "New terminal" }).click();
    await screen.shows(/\$ /);
    await v.page.waitForFunction((name) => {
      const tab = [...document.querySelectorAll("[role=tab][aria-selected=true]")].find((one) => one.textContent?.includes(name));
      const [at, strip] = [tab?.getBoundingClientRect(), tab?.parentElement?.getBoundingClientRect()];
      return at && strip && at.left >= strip.left - 1 && at.right <= strip.right + 1;
    }, `Terminal ${n}`);
  }
  for (const n of [5, 4, 3]) {
    await v.page.getByRole("tab", { name: `Terminal ${n}` }).press("Delete");
    await v.page.getByRole("button", { name: "End it" }).press("Enter");
    await v.page.getByRole("tab", { name: `Terminal ${n}` }).waitFor({ state: "detached" });
    // The keyboard focus moves to the remaining tab.
    await v.page.waitForFunction(() => document.activeElement?.getAttribute("role") === "tab" && document.activeElement.getAttribute("aria-selected") === "true");
  }
  await v.page.setViewportSize(size);

  await v.page.reload();
  await screen.shows(/first/); // its earlier output
  await screen.run("echo $x again");
  await screen.shows(/kept again/);
  await v.page.getByRole("tab", { name: "Terminal 2" }).click();
  await screen.shows(/second/);

  await screen.type("exit 3\n");
  await v.page.getByText("Exited with status 3.").waitFor();
  assert.match(await screen.text(), /second/);
  await v.page.getByRole("button", { name: "Close Terminal 2" }).click();
  await v.page.getByRole("tab", { name: "Terminal 2" }).waitFor({ state: "detached" });

  await v.page.getByRole("button", { name: "Close Terminal 1" }).click();
  await v.page.getByRole("button", { name: "End it" }).click();
  await v.page.getByRole("button", { name: "Open a terminal" }).waitFor();
  const gone = async () => (await v.api.terminals.list(id)).every(({ exit_code }) => exit_code !== undefined);
  await until("the server's terminals are gone", gone);

  // A terminal whose tab is closed before the page knows its id ends, too.
  let tell = () => {};
  const told = new Promise<void>((resolve) => (tell = resolve));
  await v.page.routeWebSocket(/terminal/, (socket) => socket.connectToServer().onMessage((message) => void told.then(() => socket.send(message))));
  await v.page.getByRole("button", { name: "Open a terminal" }).click();
  await until("the server has it", async () => !(await gone()));
  await v.page.getByRole("button", { name: "Close Terminal 1" }).click();
  await v.page.getByRole("button", { name: "Open a terminal" }).waitFor();
  tell();
  await until("it is gone", gone);
});

test("what a program prints stays text: titles, links, clipboard, styles, questions", async (t) => {
  const { v, screen, open } = await begin(t);
  await v.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await v.page.evaluate(() => navigator.clipboard.writeText("mine"));
  await open();
  await screen.run(String.raw`printf '\033]0;<img src=x onerror=alert(1)>\u202eevil\a'`);
  await v.page.getByRole("tab", { name: "<img src=x onerror=alert(1)>evil" }).waitFor();
  await screen.run(String.raw`printf '\033]52;c;c3RvbGVu\a\033]8;;https://example.com/\033\\press\033]8;;\033\\ <script>alert(1)</script>\n'`);
  await screen.shows(/press <script>alert\(1\)<\/script>/);
  assert.equal(await v.page.locator(".xterm a, .xterm script, .xterm img").count(), 0);
  assert.equal(await v.page.evaluate(() => navigator.clipboard.readText()), "mine");
  await screen.run(String.raw`printf '\033[38;2;1;200;3mtrue\033[48;5;200mcolour\033[1;3;4;9mall\033[0m\033#8\a\a\a\033c'`);
  // A reply to a query in the history would be typed into the shell.
  await screen.run(String.raw`printf '\033[c'; read -rsd c; clear`);
  await v.page.reload();
  await screen.shows(/\$ /); // earlier input would be lost
  await screen.run("echo clean");
  assert.doesNotMatch(await screen.text(), /\[\?|1;2c/);
});

test("pasting many lines asks; Ctrl+C copies what is selected, and interrupts else", async (t) => {
  const { v, screen, open } = await begin(t);
  await v.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await open();
  const paste = async (text: string) => {
    await v.page.evaluate((given) => navigator.clipboard.writeText(given), text);
    await v.page.locator(".terminal:visible .xterm-screen").click();
    await v.page.keyboard.press("Control+Shift+v");
  };
  await paste("echo pasted $((40+2))\n");
  await screen.shows(/\$ echo pasted/);
  await v.page.keyboard.press("Enter");
  await screen.shows(/pasted 42/);
  const many = Array.from({ length: 6 }, (_, i) => `echo line $((${i}*10))`).join("\n");
  // Characters that change the text direction are visible before the paste.
  await paste(`# \u202Eeman\r\n${many}`);
  const hidden = v.page.getByRole("dialog", { name: "Paste 7 lines?" });
  assert.match(await hidden.locator("pre").innerText(), /^# ⟨202E⟩eman\necho/);
  await hidden.getByRole("button", { name: "Do not paste" }).click();
  await hidden.waitFor({ state: "detached" });
  await paste(many);
  const dialog = v.page.getByRole("dialog", { name: "Paste 6 lines?" });
  await dialog.getByRole("button", { name: "Do not paste" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.doesNotMatch(await screen.text(), /line 50/);
  await paste(many);
  await dialog.getByRole("button", { name: "Paste", exact: true }).click();
  await screen.shows(/line \$\(\(5\*10\)\)/);
  await v.page.keyboard.press("Enter");
  await screen.shows(/line 50/);

  await screen.type("clear; echo begun; sleep 1000\n");
  await screen.shows(/^begun/m);
  for (const secure of [true, false]) {
    await v.page.evaluate(async (secure) => {
      await navigator.clipboard.writeText("");
      if (!secure) Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true }); // as without https
    }, secure);
    await v.page.locator(".terminal:visible .xterm-screen").dblclick({ position: { x: 10, y: 6 } });
    await v.page.keyboard.press("Control+c");
    await v.page.evaluate(() => Reflect.deleteProperty(navigator, "clipboard"));
    assert.equal(await v.page.evaluate(() => navigator.clipboard.readText()), "begun");
  }
  await screen.type("typed ahead"); // it still sleeps: this is only echoed
  await screen.shows(/typed ahead/);
  await v.page.keyboard.press("Control+c");
  await screen.run("echo status $?");
  await screen.shows(/status 130/);
});

test("another client takes a terminal over, and the page takes it back when asked", async (t) => {
  const { v, id, screen, open } = await begin(t);
  await open();
  await screen.run("echo mine");
  const [terminal] = await v.api.terminals.list(id);
  const other = await v.api.terminals.attach({ id: terminal!.terminal_id });
  await screen.strip.getByText("Another window or client has taken this terminal over.").waitFor();
  assert.match(await screen.strip.innerText(), /Code 4010/);
  await other.write("echo th''eirs\n");
  await screen.strip.getByRole("button", { name: "Reconnect" }).click();
  await screen.shows(/^theirs/m); // earlier input would be lost
  assert.equal(await screen.strip.count(), 0);
  await screen.run("echo back");
  for await (const event of other) if (event.kind === "replaced") break;
  await other.close();
});

test("a server that is killed and started again: the first error stays, and nothing is lost", async (t) => {
  const server = await serve(t);
  const { v, screen, open } = await begin(t, { place: server });
  v.allow(/ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|ERR_INCOMPLETE|ERR_CONNECTION_CLOSED|WebSocket|50[0-9]/);
  await open();
  await screen.run("x=alive");
  await screen.type("echo begun-$((1+1)); sleep 1; for i in 1 2 3; do echo while-away-$((i*11)); done\n");
  await screen.shows(/begun-2/); // every key has arrived
  await server.kill();
  await screen.strip.getByText("Code 1006.").waitFor();
  await serve(t, { data: server.data, listen: new URL(server.url).host });
  await screen.strip.getByText("Connected again.").waitFor();
  await screen.shows(/while-away-11\n.*while-away-22\n.*while-away-33/s);
  assert.match(await screen.strip.innerText(), /Code 1006/);
  await screen.strip.getByRole("button", { name: "Dismiss" }).click();
  await screen.strip.waitFor({ state: "detached" });
  await screen.run("echo still $x");
  await screen.shows(/still alive/);
});

test("a terminal that is gone when the page comes back says so", async (t) => {
  const { v, id, screen, open } = await begin(t);
  let [leave, admit] = [() => {}, () => {}];
  const admitted = new Promise<void>((resolve) => (admit = resolve));
  let connections = 0;
  await v.page.routeWebSocket(/terminal/, (socket) => {
    if (++connections > 1) return void admitted.then(() => socket.connectToServer());
    const server = socket.connectToServer();
    leave = () => {
      void socket.close({ code: 1001, reason: "server is shutting down" }); // first, because later input of the page would cause an error
      void server.close();
    };
  });
  await open();
  leave();
  await screen.strip.getByText("The server stops.").waitFor();
  const [terminal] = await v.api.terminals.list(id);
  await v.api.terminals.end(terminal!.terminal_id);
  admit();
  await screen.strip.getByText("There is no such terminal or session.").waitFor();
});

test("a screen that falls behind leaves, and comes back for the history", soak, async (t) => {
  const { v, screen, open } = await begin(t);
  // The screen parses in timeouts: while the test holds them, no output is parsed.
  await v.inject(() => {
    const start = window.setTimeout.bind(window);
    let held: (() => void)[] | undefined;
    window.setTimeout = ((run: () => void, ms?: number, ...rest: unknown[]) => (held && !ms ? held.push(run) : start(run, ms, ...rest))) as typeof setTimeout;
    Object.assign(window, { hold: () => (held = []), release: () => { const all = held ?? []; held = undefined; for (const run of all) start(run); } });
  });
  await v.page.reload();
  await open();
  await screen.run("echo ready");
  const sockets: string[] = [];
  v.page.on("websocket", () => sockets.push("again"));
  const [terminal] = await v.api.terminals.list(v.page.url().split("/").at(-1)!);
  await v.page.evaluate(() => (window as unknown as { hold: () => void }).hold());
  await screen.type("seq 1 800000; echo the end $((6*7))\n"); // 5.4 MB
  await until("the page has left the terminal", async () => (await v.api.terminals.get(terminal!.terminal_id)).attached === 0);
  assert.deepEqual(sockets, []);
  await v.page.keyboard.type("echo kept $((6*7))\n"); // input while it is behind
  await v.page.evaluate(() => (window as unknown as { release: () => void }).release());
  await screen.shows(/800000\s+the end 42[^]*kept 42/);
  assert.deepEqual(sockets, ["again"]);
  assert.equal(await screen.strip.count(), 0); // no notice for the user
});

test("the search finds, the keyboard leaves, and the screen reader reads", async (t) => {
  const { v, screen, open } = await begin(t);
  await open();
  await screen.run("seq 1 500; echo needle-in-it; seq 1 500");
  await v.page.keyboard.press("Control+Shift+f");
  await v.page.getByLabel("Search in the terminal").fill("no such thing");
  await v.page.keyboard.press("Enter");
  const missing = v.page.locator(".find").getByText("Not found");
  await missing.waitFor();
  await v.page.getByLabel("Search in the terminal").fill("needle-in");
  await v.page.keyboard.press("Enter");
  await missing.waitFor({ state: "detached" });
  await screen.shows(/needle-in-it/);
  await v.page.keyboard.press("Escape");
  await v.page.getByLabel("Search in the terminal").waitFor({ state: "detached" });
  await v.page.keyboard.press("Control+Shift+ArrowUp");
  assert.equal(await v.page.evaluate(() => document.activeElement?.getAttribute("role")), "tab");
  await v.page.getByRole("button", { name: "Screen reader" }).click();
  await screen.type("echo read this\n");
  await v.page.locator(".xterm-accessibility-tree").getByText("read this", { exact: true }).first().waitFor({ state: "attached" });
});
