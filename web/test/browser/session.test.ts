// The page of a session: files, the editor, uploads, the search, runs, the network.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Locator, Page } from "playwright-core";
import type { Session } from "../../../sdk/typescript/src/index.ts";
import { soak } from "./tier.ts";
import { accessible, alsoAccessible, serve, tempDir, until, visit, within, type Place, type Visit } from "./world.ts";

type Owner = Parameters<typeof visit>[0];

/** begin creates a session with files, and opens its page. */
async function begin(t: Owner, files: Record<string, string | Uint8Array> = {}, query = "", place?: Place): Promise<{ v: Visit; page: Page; session: Session; row: (name: string) => Locator }> {
  const v = await visit(t, { ...(place ? { place } : {}) });
  const session = await v.api.sessions.create({ base_image: "host", labels: { name: "a session" }, resources: { memory_mb: 300 } });
  for (const [path, content] of Object.entries(files)) await session.write(path, content);
  await v.open(`sandbox/sessions/${session.id}${query}`);
  return { v, page: v.page, session, row: (name) => v.page.getByRole("treeitem").filter({ has: v.page.getByText(name, { exact: true }) }) };
}

const editor = (page: Page): Locator => page.locator(".file .cm-content");
const named = (page: Page, name: string): Locator => page.getByRole("button", { name, exact: true });

/** asks returns whether the browser asks before it leaves the page. */
const asks = (page: Page): Promise<boolean> => page.evaluate(() => !dispatchEvent(new Event("beforeunload", { cancelable: true })));

/** retype replaces the text in the editor. */
async function retype(page: Page, text: string): Promise<void> {
  await editor(page).click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(text);
}

test("a file is found with the keyboard, edited and saved as it was: its mode and line ends", async (t) => {
  const { page, session, row } = await begin(t, { "src/deep/run.sh": "echo 1\r\necho 2\r\n", "z.txt": "z" });
  await session.files.write("src/deep/run.sh", "echo 1\r\necho 2\r\n", { overwrite: true, mode: 0o755 });
  await row("src").focus();
  for (const key of ["ArrowRight", "ArrowDown", "Enter", "ArrowDown", "Enter"]) {
    await page.keyboard.press(key);
    if (key === "ArrowRight") await row("deep").waitFor();
    else if (key === "Enter" && !(await editor(page).isVisible())) await row("run.sh").waitFor();
  }
  await editor(page).waitFor();
  assert.equal(new URL(page.url()).searchParams.get("file"), "src/deep/run.sh");
  await retype(page, "echo 3\necho 4\n");
  await page.getByText("● not saved").waitFor();
  await page.keyboard.press("Control+s");
  await page.getByText("● not saved").waitFor({ state: "detached" });
  assert.equal(await session.files.text("src/deep/run.sh"), "echo 3\r\necho 4\r\n");
  assert.equal((await session.files.stat("src/deep/run.sh")).mode, "0755");
  await session.exec("chmod 700 src/deep/run.sh"); // as a user does in a terminal
  // The second message is read out, too.
  const said = page.locator("[aria-live=polite]").last();
  const first = await said.textContent();
  assert.match(first!, /^Saved/);
  await retype(page, "echo 3\necho 5\n");
  await page.keyboard.press("Control+s");
  await page.getByText("● not saved").waitFor({ state: "detached" });
  assert.notEqual(await said.textContent(), first);
  assert.equal((await session.files.stat("src/deep/run.sh")).mode, "0700");
  await page.reload();
  await editor(page).getByText("echo 3").waitFor();
  assert.equal(await row("run.sh").getAttribute("aria-level"), "3");
  // Tab indents; Escape, then Tab, leaves.
  await editor(page).click();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Tab");
  assert.equal(await editor(page).evaluate((e) => e === document.activeElement), false);
});

test("what something else has written is never overwritten unseen", async (t) => {
  const { v, page, session } = await begin(t, { "a.txt": "one\n" }, "?file=a.txt");
  v.allow(/404|412/); // for the deleted file, and for the refused save
  const dialog = page.getByRole("dialog", { name: "The file has changed" });
  const conflict = async (mine: string, theirs: string) => {
    await retype(page, mine);
    await session.write("a.txt", theirs);
    await named(page, "Save").click();
    await dialog.locator(".cm-merge-b").getByText(mine.trim()).waitFor();
    await dialog.locator(".cm-merge-a").getByText(theirs.trim()).waitFor();
  };
  await editor(page).getByText("one").waitFor();
  await conflict("two\n", "six\n"); // of the same size, possibly in the same second
  await alsoAccessible(page, "session-conflict");
  await named(page, "Take theirs, without my changes").click();
  await editor(page).getByText("six").waitFor();
  await conflict("mine\n", "theirs\n");
  await named(page, "Keep mine").click();
  await dialog.waitFor({ state: "detached" });
  assert.equal(await session.files.text("a.txt"), "mine\n");
  await conflict("left\n", "right\n");
  await dialog.locator(".cm-merge-b .cm-content").click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText("both\n");
  // Something else writes another version meanwhile: the dialog shows that one, and the text that was to be saved.
  await session.write("a.txt", "later\n");
  await named(page, "Save the right side").click();
  await dialog.locator(".cm-merge-a").getByText("later").waitFor();
  await dialog.locator(".cm-merge-b").getByText("both").waitFor();
  assert.equal(await session.files.text("a.txt"), "later\n");
  await named(page, "Keep mine").click();
  await dialog.waitFor({ state: "detached" });
  assert.equal(await session.files.text("a.txt"), "both\n");

  await retype(page, "last\n");
  await session.files.delete("a.txt");
  await named(page, "Save").click();
  await page.getByRole("dialog", { name: "The file is gone" }).getByRole("button", { name: "Save it again" }).click();
  await page.getByText("● not saved").waitFor({ state: "detached" });
  assert.equal(await session.files.text("a.txt"), "last\n");

  await retype(page, "of no use\n");
  await session.files.delete("a.txt");
  await named(page, "Save").click();
  await named(page, "Close it, without my changes").click(); // the page must not ask again
  await editor(page).waitFor({ state: "detached" });
});

test("a save that arrives although its answer is lost is no conflict", async (t) => {
  const { v, page, session } = await begin(t, { "a.txt": "one\n" }, "?file=a.txt");
  v.allow(/412|ERR_CONNECTION_RESET/);
  const problem = page.locator(".file").getByRole("alert");
  const lose = async (text: string) => {
    await page.route((url) => /fs\/write|fs\/raw/.test(url.pathname), async (route) => {
      await route.fetch();
      await route.abort("connectionreset");
    }, { times: 1 });
    await retype(page, text);
    await named(page, "Save").click();
    await problem.waitFor();
    assert.equal(await session.files.text("a.txt"), text);
  };
  const save = async () => {
    await named(page, "Save").click();
    await page.getByText("● not saved").waitFor({ state: "detached" });
    assert.equal(await page.getByRole("dialog").count(), 0);
  };
  await editor(page).getByText("one").waitFor();
  await lose("two\n");
  await save();
  await lose("three\n");
  await retype(page, "four\n"); // after the lost answer
  await save();
  assert.equal(await session.files.text("a.txt"), "four\n");
});

test("what is typed while a file is read again stays", soak, async (t) => {
  const { v, page, session } = await begin(t, { "a.txt": "one\n" }, "?file=a.txt");
  v.allow(/412/);
  await editor(page).getByText("one").waitFor();
  await session.write("a.txt", "of a program\n");
  let go = () => {};
  const held = new Promise<void>((on) => (go = on));
  const asked = new Promise<void>((resolve) => void page.route(/fs\/read/, async (route) => { // the pointer that enters the editor asks, too
    const answer = await route.fetch();
    resolve();
    await held;
    await route.fulfill({ response: answer });
  }));
  await page.evaluate(() => dispatchEvent(new Event("focus"))); // as if the window had lost the focus
  await within("the question", asked);
  await retype(page, "mine");
  const answered = page.waitForResponse(/fs\/read/);
  go();
  await answered;
  await page.getByText("Something else has changed this file.").waitFor();
  assert.equal(await editor(page).innerText(), "mine");
  await page.keyboard.press("Control+s");
  await page.getByRole("dialog", { name: "The file has changed" }).locator(".cm-merge-a").getByText("of a program").waitFor();
});

test("a text and a picture that programs have changed are shown again, and never in place of unsaved text", async (t) => {
  const svg = (width: number) => `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="9"/>`;
  const { page, session, row } = await begin(t, { "a.txt": "one\n", "b.svg": svg(10) }, "?file=a.txt");
  const section = page.getByRole("region", { name: "Editor" });
  await editor(page).getByText("one").waitFor();
  await page.mouse.move(0, 0);
  await session.write("a.txt", "by mouse\n");
  await section.hover();
  await editor(page).getByText("by mouse").waitFor();
  await page.mouse.move(0, 0);
  await page.getByRole("tab", { name: "Terminals" }).focus();
  await session.write("a.txt", "with keys\n");
  await named(page, "Close the file").focus();
  await editor(page).getByText("with keys").waitFor();

  await retype(page, "mine");
  await page.mouse.move(0, 0);
  await session.write("a.txt", "theirs, again\n");
  await section.hover();
  await page.getByText("Something else has changed this file.").waitFor();
  assert.equal(await editor(page).innerText(), "mine");
  await row("b.svg").click();
  await page.getByRole("dialog").getByRole("button", { name: "Discard" }).click();

  // A run of the page has changed the picture.
  const image = section.locator("img");
  const width = () => image.evaluate((one: HTMLImageElement) => one.decode().then(() => one.naturalWidth));
  await image.waitFor();
  assert.equal(await width(), 10);
  await page.getByRole("tab", { name: "Runs" }).click();
  await page.getByLabel("Run a command here").fill("true");
  await session.write("b.svg", svg(2000));
  await page.keyboard.press("Enter");
  await until("the new picture", async () => (await width().catch(() => 0)) === 2000);
});

test("a file that is rewritten in the same second, with the same size, is shown again", async (t) => {
  const { page, session } = await begin(t);
  const write = (text: string) => session.exec(`printf ${text} > a.txt; touch -d '2099-01-01' a.txt`); // a file is new when it is read until its time is over
  await write("one");
  await page.goto(`${page.url()}?file=a.txt`);
  await editor(page).getByText("one").waitFor();
  await page.mouse.move(0, 0);
  await write("two");
  await page.getByRole("region", { name: "Editor" }).hover();
  await editor(page).getByText("two").waitFor();
  await retype(page, "six");
  await page.keyboard.press("Control+s");
  await page.getByText("● not saved").waitFor({ state: "detached" });
  await retype(page, "mine");
  await page.mouse.move(0, 0);
  await page.route(/fs\/stat/, async (route) => { // a program writes in the second of the save
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...await answer.json(), mtime_unix: saved.mtime_unix } });
  });
  const saved = await session.files.stat("a.txt");
  await session.write("a.txt", "ten");
  await page.getByRole("region", { name: "Editor" }).hover();
  await page.getByText("Something else has changed this file.").waitFor();
});

test("what an editor has begun keeps its file after the editor is closed", async (t) => {
  const { page, session } = await begin(t);
  await session.exec("printf one > a.txt; touch -d '2099-01-01' a.txt"); // a file is new when it is read until its time is over
  await page.goto(`${page.url()}?file=a.txt`);
  await editor(page).getByText("one").waitFor();
  await page.mouse.move(0, 0);
  let release = () => {};
  const held = new Promise<void>((resolve) => { release = resolve; });
  const asked = new Promise<void>((resolve) => void page.route(/fs\/stat/, async (route) => {
    const response = await route.fetch();
    resolve();
    await held;
    await route.fulfill({ response });
  }));
  await page.getByRole("region", { name: "Editor" }).hover();
  await asked;
  await named(page, "Close the file").click();
  await editor(page).waitFor({ state: "detached" });
  const next = page.waitForRequest(/fs\/read/);
  release();
  assert.equal((await next).postDataJSON().path, "a.txt");
});

test("typing is a use of the session", async (t) => {
  const { page, session } = await begin(t, { "a.txt": "one\n" }, "?file=a.txt");
  await page.evaluate(() => {
    const now = performance.now.bind(performance);
    Object.assign(window, { ahead: 0 });
    performance.now = () => now() + (window as unknown as { ahead: number }).ahead;
  });
  await editor(page).getByText("one").waitFor();
  await page.mouse.move(0, 0);
  let looks = 0;
  page.on("request", (request) => void (looks += request.url().includes("fs/stat") ? 1 : 0));
  const looked = page.waitForResponse(/fs\/stat/);
  await editor(page).focus();
  await looked;
  assert.equal(looks, 1);
  const expiry = async () => Date.parse((await session.get()).expires_at);
  for (const want of [2, 3]) {
    const before = await expiry();
    for (const letter of "abc") await page.keyboard.insertText(letter);
    await until("the server has noticed the typing", async () => (await expiry()) > before);
    assert.equal(looks, want, "one request in five seconds");
    await page.evaluate(() => Object.assign(window, { ahead: 5000 }));
  }
});

test("changes that are not saved are asked about, and survive a new sign-in", async (t) => {
  const { page, session, row } = await begin(t, { "a.txt": "a", "b.txt": "b" }, "?file=a.txt");
  await editor(page).getByText("a", { exact: true }).waitFor();
  await retype(page, "changed");
  await row("b.txt").click();
  const dialog = page.getByRole("dialog", { name: "Save the changes?" });
  await dialog.getByRole("button", { name: "Stay" }).click();
  await editor(page).getByText("changed").waitFor();

  let asked = "";
  page.once("dialog", (d) => { asked = d.message(); void d.dismiss(); });
  await page.getByRole("link", { name: "Runs" }).click();
  assert.match(asked, /not saved/);
  assert.match(page.url(), new RegExp(session.id));

  const token = await page.evaluate(() => {
    const kept = localStorage.getItem("belljar.token")!;
    localStorage.removeItem("belljar.token"); // as another tab does before this event
    dispatchEvent(new StorageEvent("storage", { key: "belljar.token" }));
    return kept;
  });
  await page.getByRole("heading", { name: "Sign in to Belljar" }).waitFor();
  await page.getByText("Changes to a file are not saved.").waitFor();
  assert.ok(await asks(page), "the browser asks before it forgets them");
  await page.evaluate((value) => {
    localStorage.setItem("belljar.token", value);
    dispatchEvent(new StorageEvent("storage", { key: "belljar.token" }));
  }, token);
  await editor(page).getByText("changed").waitFor();
  await page.getByText("● not saved").first().waitFor();

  await row("b.txt").click();
  await dialog.getByRole("button", { name: "Save" }).click();
  await editor(page).getByText("b", { exact: true }).waitFor();
  assert.equal(await session.files.text("a.txt"), "changed");
  await retype(page, "lost");
  await row("a.txt").click();
  await dialog.getByRole("button", { name: "Discard" }).click();
  await editor(page).getByText("changed").waitFor();
  assert.equal(await session.files.text("b.txt"), "b");
  // The page does not ask again about discarded changes.
  await retype(page, "lost");
  await named(page, "Close the file").click();
  await dialog.getByRole("button", { name: "Discard" }).click();
  await editor(page).waitFor({ state: "detached" });
  await row("b.txt").click();
  await editor(page).getByText("b", { exact: true }).waitFor();
});

test("files and folders are made, renamed and deleted", async (t) => {
  const { v, page, session, row } = await begin(t);
  v.allow(/409/);
  v.allow(/404 .*fs\/(list|stat|read)/); // the pointer enters the files, so the folder and the open file may be read at the moment of their deletion
  await page.getByText("The workspace is empty.").waitFor();
  const dialog = page.getByRole("dialog");
  await named(page, "+ Folder").click();
  await dialog.getByLabel("Name").fill("../out");
  assert.ok(await named(page, "Make it").isDisabled());
  await dialog.getByLabel("Name").fill("d");
  await page.keyboard.press("Enter");
  await row("d").click();
  await named(page, "+ File").click();
  await dialog.getByLabel("Name").fill("x.py");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement?.closest(".file .cm-content")); // a new file has the focus
  await retype(page, "unsaved = 1");
  await row("x.py").focus();
  await page.keyboard.press("F2");
  await dialog.getByLabel("Name").fill("y.py");
  await page.keyboard.press("Enter");
  await row("y.py").waitFor();
  await editor(page).getByText("unsaved").waitFor(); // the text moves with the file
  assert.equal(new URL(page.url()).searchParams.get("file"), "d/y.py");
  await named(page, "+ File").click();
  await dialog.getByLabel("Name").fill("y.py");
  await page.keyboard.press("Enter");
  await dialog.getByRole("alert").getByText("Choose another name").waitFor(); // the file exists
  await named(page, "Close").click();
  await row("d").click();
  await page.keyboard.press("Delete");
  await dialog.getByText("and all that is in it").waitFor();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByText("The workspace is empty.").waitFor();
  await editor(page).waitFor({ state: "detached" });
  assert.deepEqual((await session.files.list()).entries, []);
  assert.equal(await page.getByRole("tree").evaluate((e) => e === document.activeElement), true);
});

test("a question that is closed does not stop what was asked for", async (t) => {
  const { page, row } = await begin(t);
  let go = () => {};
  const asked = new Promise<void>((resolve) => void page.route(/fs\/raw/, async (route) => {
    resolve();
    await new Promise<void>((on) => (go = on));
    await route.continue();
  }, { times: 1 }));
  await named(page, "+ File").click();
  await page.getByRole("dialog").getByLabel("Name").fill("x.py");
  await page.keyboard.press("Enter");
  await within("the request", asked);
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  go();
  await row("x.py").waitFor();
  await editor(page).waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
});

test("a file that is made late opens no editor in another page", async (t) => {
  const { page, session } = await begin(t);
  let go = () => {};
  const asked = new Promise<void>((resolve) => void page.route(/fs\/raw/, async (route) => {
    resolve();
    await new Promise<void>((on) => (go = on));
    await route.continue();
  }, { times: 1 }));
  await named(page, "New notebook").click();
  await within("the request", asked);
  await page.getByRole("link", { name: "Sessions", exact: true }).first().click();
  await page.waitForURL(/sandbox\/sessions$/);
  go();
  await until("the file exists", async () => (await session.files.list()).entries.some((entry) => entry.path === "notebook.ipynb"));
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))));
  assert.match(page.url(), /sandbox\/sessions$/);
});

test("the tree has what programs have written, and keeps the place of what is deleted", async (t) => {
  const { page, session, row } = await begin(t, { "a/x.txt": "", "b.txt": "", "c.txt": "" });
  await row("c.txt").waitFor();
  await page.mouse.move(0, 0);
  await session.write("by-mouse.txt", "");
  await row("c.txt").hover();
  await row("by-mouse.txt").waitFor();
  await page.getByRole("tab", { name: "Terminals" }).focus();
  await session.write("by-keys.txt", "");
  await row("a").focus();
  await row("by-keys.txt").waitFor();

  await row("a").press("ArrowRight");
  await row("x.txt").waitFor();
  await page.keyboard.press("Delete");
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).press("Enter");
  await row("a").waitFor({ state: "detached" });
  await page.waitForFunction(() => document.activeElement?.textContent?.includes("b.txt"));

  // A late answer does not replace a newer one.
  let late = () => {};
  const asked = new Promise<void>((resolve) => void page.route(/fs\/list/, async (route) => {
    const old = await route.fetch();
    resolve();
    await new Promise<void>((go) => (late = go));
    await route.fulfill({ response: old });
  }, { times: 1 }));
  await named(page, "List the files again").click();
  await within("the question", asked);
  await session.write("new.txt", "");
  const answered = page.waitForResponse(/fs\/list/);
  await named(page, "List the files again").click();
  await row("new.txt").waitFor();
  await answered;
  const last = page.waitForResponse(/fs\/list/);
  late();
  await last;
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(done)));
  assert.equal(await row("new.txt").count(), 1);
  assert.equal(await page.getByRole("tablist", { name: "Of this session" }).evaluate((e) => getComputedStyle(e).overflowY), "hidden");
});

test("in long folders, the file that a link opens is in sight, and the page is no longer for it", async (t) => {
  const { v, page, session } = await begin(t);
  await session.exec("mkdir p q r && for d in p q r; do (cd $d && touch $(seq 1100)); done");
  await v.open(`sandbox/sessions/${session.id}?file=${encodeURIComponent("p/500")}`);
  await editor(page).waitFor();
  await retype(page, "changed");
  const tree = page.getByRole("tree");
  await tree.getByText("not saved").waitFor({ state: "attached" });
  const place = () => page.evaluate(() => {
    const [line, tree, frame] = [".opened", "[role=tree]", "#page"].map((one) => document.querySelector(one)!.getBoundingClientRect());
    return { inSight: line!.top >= tree!.top - 1 && line!.bottom <= tree!.bottom + 1, room: tree!.height, longer: document.documentElement.scrollHeight - frame!.bottom - scrollY };
  });
  const { inSight, longer } = await place();
  assert.ok(inSight, "the file's line is in sight");
  assert.ok(longer < 2, `the page is ${longer} px longer`);
  for (const name of ["q", "r"]) {
    await tree.getByRole("treeitem", { name, exact: true }).focus();
    await page.keyboard.press("ArrowRight");
    await tree.locator(`[aria-expanded=true]`, { hasText: name }).waitFor();
  }
  await page.getByText("3 folders have more entries than are listed.").waitFor();
  assert.ok((await place()).room > 100, "the tree keeps its room");
});

test("uploads tell how far they are, replace only when asked, and land in the folder", async (t) => {
  const { v, page, session, row } = await begin(t, { "in/old.txt": "old", "in/1.txt": "", "in/2.txt": "", "in/3.txt": "" });
  v.allow(/409/);
  await row("in").click();
  const big = Buffer.alloc(3 << 20, 7);
  await page.locator('input[type="file"]').setInputFiles([
    { name: "old.txt", mimeType: "text/plain", buffer: Buffer.from("new") },
    { name: "big.bin", mimeType: "application/octet-stream", buffer: big },
    { name: "<b>x.txt", mimeType: "text/plain", buffer: Buffer.from("x") },
  ]);
  await page.getByText("2 files of 3 uploaded").waitFor();
  assert.equal(await session.files.text("in/old.txt"), "old");
  assert.equal((await session.files.stat("in/big.bin")).size, big.length);
  await row("<b>x.txt").waitFor();
  await page.getByText("Exists already.").getByRole("button", { name: "Replace" }).click();
  await page.getByText("3 files of 3 uploaded").waitFor();
  assert.equal(await session.files.text("in/old.txt"), "new");
  await page.locator(".uploads").getByRole("button", { name: "Close" }).click();

  // Replacements are also sent two at a time.
  await page.locator('input[type="file"]').setInputFiles([1, 2, 3].map((n) => ({ name: `${n}.txt`, mimeType: "text/plain", buffer: Buffer.from("all") })));
  await page.getByText("0 files of 3 uploaded").waitFor();
  const all = page.getByRole("button", { name: "Replace all" });
  await until("all exist", async () => (await page.getByText("Exists already.").count()) === 3);
  let send = () => {};
  const asked = new Promise<void>((resolve) => (send = resolve));
  let waiting = 0;
  await page.route(/overwrite=true/, async (route) => {
    waiting++;
    await asked;
    await route.continue();
  });
  await all.click();
  await until("two are on their way", () => waiting >= 2);
  await page.evaluate(() => fetch(location.href)); // after the uploads
  assert.equal(waiting, 2);
  const leave = () => page.evaluate(() => dispatchEvent(new Event("beforeunload", { cancelable: true })));
  assert.ok(!(await leave()), "the browser asks before it gives them up");
  send();
  await page.getByText("3 files of 3 uploaded").waitFor();
  assert.ok(await leave());
  await page.unroute(/overwrite=true/);
  assert.equal(await session.files.text("in/3.txt"), "all");
  await page.locator(".uploads").getByRole("button", { name: "Close" }).click();

  const data = await page.evaluateHandle(() => {
    const transfer = new DataTransfer();
    transfer.items.add(new File(["dropped"], "dropped.txt"));
    return transfer;
  });
  await row("in").dispatchEvent("drop", { dataTransfer: data });
  await row("dropped.txt").waitFor();
  assert.equal(await session.files.text("in/dropped.txt"), "dropped");

  // Chromium resends a request on a reused connection, but not on a new one. This test acts like the latter.
  v.allow(/ERR_CONNECTION_RESET/);
  await page.route(/fs\/raw/, (route) => route.abort("connectionreset"));
  await page.locator('input[type="file"]').setInputFiles([{ name: "twice.txt", mimeType: "text/plain", buffer: Buffer.from("at last") }]);
  await page.locator(".uploads").getByText("It is sent again.").waitFor();
  await page.unroute(/fs\/raw/);
  await row("twice.txt").waitFor();
  assert.equal(await session.files.text("in/twice.txt"), "at last");
});

test("an upload in place of a folder, or into a folder that is locked, fails with the reason", async (t) => {
  const { v, page, session, row } = await begin(t, { "in/folder/a.txt": "", "locked/a.txt": "" });
  v.allow(/409/);
  await session.exec("chmod 500 locked");
  const uploads = page.locator(".uploads");
  const upload = (name: string) => page.locator('input[type="file"]').setInputFiles([{ name, mimeType: "text/plain", buffer: Buffer.from("x") }]);
  await row("in").click();
  await upload("folder");
  await uploads.getByRole("button", { name: "Replace" }).click();
  await uploads.getByText("is not a regular file").waitFor();
  await uploads.getByRole("button", { name: "Close" }).click();
  await row("locked").click();
  await upload("b.txt");
  await uploads.getByText("do not allow that").waitFor();
  assert.equal(await page.getByText("Exists already.").count(), 0);
});

test("a page with an upload in progress is left after a question only, and the upload ends", async (t) => {
  const { page, session } = await begin(t);
  let go = () => {};
  const sent = new Promise<void>((resolve) => void page.route(/fs\/raw/, async (route) => {
    resolve();
    await new Promise<void>((on) => (go = on));
    await route.continue().catch(() => {}); // the page has cancelled it
  }, { times: 1 }));
  await page.locator('input[type="file"]').setInputFiles([{ name: "large.bin", mimeType: "application/octet-stream", buffer: Buffer.from("x") }]);
  await within("the upload", sent);
  const leave = async (does: "accept" | "dismiss") => {
    let asked = "";
    page.once("dialog", (d) => { asked = d.message(); void d[does](); });
    await page.getByRole("link", { name: "Runs", exact: true }).click();
    assert.match(asked, /upload/);
  };
  await leave("dismiss");
  assert.match(page.url(), new RegExp(session.id));
  await page.getByText("0 files of 1 uploaded").waitFor();
  const ended = page.waitForEvent("requestfailed", (request) => /fs\/raw/.test(request.url()));
  await leave("accept");
  await ended;
  await page.waitForURL(/sandbox\/runs$/);
  go();
  assert.deepEqual((await session.files.list()).entries, []);
});

test("a server that is killed in the middle of an upload and started again: the file is sent again by itself", soak, async (t) => {
  const data = tempDir(t);
  const first = await serve(t, { data });
  const { v, page, session, row } = await begin(t, {}, "", first);
  v.allow(/ERR_|Failed to load resource/);
  const devtools = await v.context.newCDPSession(page);
  const speed = (bytes: number) => devtools.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: bytes });
  await devtools.send("Network.enable");
  await speed(1 << 20);
  const big = Buffer.from(Uint8Array.from({ length: 8 << 20 }, (_, i) => i * 31));
  await page.locator('input[type="file"]').setInputFiles([{ name: "big.bin", mimeType: "application/octet-stream", buffer: big }]);
  await page.locator(".uploads").getByText(/^[1-9]\d? %$/).waitFor();
  await first.kill();
  await within("the server", serve(t, { data, listen: new URL(first.url).host }));
  await speed(-1);
  await page.getByText("1 file of 1 uploaded").waitFor();
  await row("big.bin").waitFor();
  assert.deepEqual(Buffer.from(await session.files.read("big.bin")), big);
});

test("a file and a folder are downloaded", async (t) => {
  const { v, page, session, row } = await begin(t, { "d/a.txt": "content of a", "d/b.txt": "b" });
  await row("d").click();
  const [folder] = await Promise.all([page.waitForEvent("download"), named(page, "Download zip").click()]);
  assert.match(folder.suggestedFilename(), /\.zip$/);
  assert.equal(await folder.failure(), null);
  await row("a.txt").click();
  const [file] = await Promise.all([page.waitForEvent("download"), page.locator(".files").getByRole("button", { name: "Download" }).click()]);
  assert.equal(file.suggestedFilename(), "a.txt");
  let text = "";
  for await (const piece of await file.createReadStream()) text += String(piece);
  assert.equal(text, "content of a");

  // Unreadable files are reported, and names that are not UTF-8 are explained.
  await session.exec("ln -s /etc/passwd out; touch $(printf '2\\377 2\\376')");
  await named(page, "List the files again").click();
  await row("out").click();
  v.allow(/40\d/);
  await page.locator(".files").getByRole("button", { name: "Download" }).click();
  await page.locator(".files").getByRole("alert").getByText("leads out of the workspace").waitFor();
  await page.getByText("may be no UTF-8").waitFor();
  assert.equal(await row("2\ufffd").count(), 2);
});

test("hostile names and contents stay text", async (t) => {
  const markup = '<img src=x onerror="alert(1)">';
  const { page, row } = await begin(t, {
    [markup]: "<script>alert(1)</script>", "gpj\u202Eexe": "x", "two\nlines": "y",
    "evil.svg": `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>parent.document.title="owned"</script><image href="/api/v1/sandbox/me"/></svg>`,
    "page.html": "<script>document.title='owned'</script>",
  });
  page.on("dialog", () => assert.fail("a dialog opened"));
  await row(markup).click();
  await editor(page).getByText("<script>alert(1)</script>").waitFor();
  await row("gpj⟨202E⟩exe").waitFor();
  await row("two⟨000A⟩lines").click();
  await editor(page).getByText("y", { exact: true }).waitFor();
  await row("evil.svg").click();
  const image = page.locator(".file img");
  await image.waitFor();
  assert.match((await image.getAttribute("src"))!, /^blob:/);
  await named(page, "Edit as text").click();
  await editor(page).getByText("parent.document").waitFor();
  await row("page.html").click();
  await editor(page).getByText("owned").waitFor();
  assert.doesNotMatch(await page.title(), /owned/);
  assert.equal(await page.locator("main script, main iframe, main object, main svg script").count(), 0);
});

test("bytes and big files are offered for download, pictures are shown", async (t) => {
  const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC", "base64");
  const { page, row } = await begin(t, { "a.bin": new Uint8Array([1, 0, 2]), "big.txt": "x".repeat((5 << 20) + 1), "dot.png": png, "fits.txt": "0123456789\n".repeat(100_000) });
  await row("a.bin").click();
  await page.getByText("This file is not text").waitFor();
  await row("big.txt").click();
  await page.getByText("The editor shows files of up to 5 MiB.").waitFor();
  await row("dot.png").click();
  await page.locator(".file img").waitFor();
  assert.equal(await page.locator(".file img").evaluate((image: HTMLImageElement) => image.naturalWidth), 10);
  await row("fits.txt").click();
  await editor(page).getByText("0123456789").first().waitFor();
});

test("the search finds lines, and a link leads to one", async (t) => {
  const text = Array.from({ length: 300 }, (_, i) => `line ${i + 1}`).join("\n");
  const { page } = await begin(t, { "src/a.py": text, "src/b.txt": "LINE 250" }, "?file=src%2Fa.py&line=123");
  const marked = page.locator(".cm-line.cm-marked");
  await marked.getByText("line 123", { exact: true }).waitFor();
  await page.locator(".files").getByRole("button", { name: "Search" }).click();
  await page.waitForFunction(() => document.activeElement?.getAttribute("aria-label") === "Text to find");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Enter"); // the button has the focus again
  await page.waitForFunction(() => document.activeElement?.getAttribute("aria-label") === "Text to find");
  await page.keyboard.insertText("line 250");
  await page.keyboard.press("Enter");
  await page.getByText("2 matches in 2 files.").waitFor();
  await page.getByLabel("Names of files").fill("*.py");
  await page.keyboard.press("Enter");
  await page.getByText("1 match in 1 file.").waitFor();
  await alsoAccessible(page, "session-search");
  await page.getByRole("button", { name: "250 line 250" }).click();
  await marked.getByText("line 250", { exact: true }).waitFor();
  assert.equal(new URL(page.url()).searchParams.get("line"), "250");
  await page.goto(page.url().replace("line=250", "line=99999999999"));
  await editor(page).getByText("line 1", { exact: true }).waitFor(); // an invalid line number is ignored
});

test("commands run, the network is changed and asked, ports are listed", async (t) => {
  const { v, page, session } = await begin(t);
  await page.getByRole("tab", { name: "Runs" }).click();
  let start = () => {};
  const started = new Promise<void>((resolve) => (start = resolve));
  await page.route(/sandbox\/runs\?wait/, (route) => void started.then(() => route.continue()), { times: 1 });
  await page.getByLabel("Run a command here").fill("echo '<b>hi</b>' > made.txt; exit 4");
  await page.keyboard.press("Enter");
  await named(page, "Starting …").waitFor();
  await page.getByLabel("Run a command here").fill("the next one");
  start();
  const row = page.getByRole("row").filter({ hasText: "made.txt" });
  await row.getByText("failed").waitFor();
  await row.getByText(/exited with status 4/).waitFor();
  assert.equal(await page.getByLabel("Run a command here").inputValue(), "the next one");
  assert.match((await row.getByRole("link").getAttribute("href"))!, /sandbox\/runs\/[0-9a-f-]{36}$/);

  await page.getByRole("tab", { name: "Network" }).click();
  await page.getByLabel("What would happen to a URL?").fill("https://example.com");
  let ask = () => {};
  const pressed = new Promise<void>((resolve) => (ask = resolve));
  await page.route(/network\/check/, (route) => void pressed.then(() => route.continue()), { times: 1 });
  const asking = page.waitForRequest(/network\/check/);
  await named(page, "Check").click();
  await asking;
  assert.ok(await named(page, "Checking …").isDisabled(), "one question at a time");
  ask();
  await page.getByText("✕ Denied.").waitFor();
  v.allow(/403/);
  const rules = page.getByRole("tabpanel", { name: "Network" });
  await rules.getByLabel("reach what is listed, within the server's rules").check();
  await rules.getByLabel("Hosts, networks and addresses").fill("example.com\n".repeat(3));
  await page.getByRole("tab", { name: "Usage" }).click();
  await page.getByRole("tab", { name: "Network" }).click();
  assert.match(await rules.getByLabel("Hosts, networks and addresses").inputValue(), /^example/, "a look elsewhere loses nothing");
  await rules.locator("> div").evaluateAll((all) => all.forEach((e) => e.scrollTo(0, e.scrollHeight)));
  await named(page, "Put in force").click();
  await rules.getByRole("alert").waitFor();
  // The error of a user's action is visible, even if it is further up.
  await page.waitForFunction(() => {
    const [alert, panel] = [".pad [role=alert]", ".pad"].map((one) => document.querySelector(one)!.getBoundingClientRect());
    return alert!.top >= panel!.top - 1 && alert!.top < panel!.bottom;
  });

  await page.getByRole("tab", { name: "Usage" }).click();
  await page.getByText("Processor, of one core").waitFor();

  await session.start(["python3", "-m", "http.server", "8123"]);
  await page.getByRole("tab", { name: "Ports" }).click();
  await page.getByRole("cell", { name: "8123", exact: true }).waitFor();
  await named(page, "Preview").click();
  await page.getByRole("alert").getByText("This server has no previews.").waitFor();
  assert.equal(await named(page, "Preview").count(), 0, "it is offered no more");

  // A page without user actions does not keep the session alive.
  const [before, after] = await page.evaluate(async () => {
    const [later, ask, now] = [window.setTimeout, window.fetch, Date.now];
    let [asked, ahead] = [0, 120_000];
    window.setTimeout = ((does: () => void, ms?: number) => later(does, ms === 5000 ? 0 : ms)) as typeof setTimeout;
    window.fetch = (...args) => {
      if (String(args[0]).endsWith("/ports")) asked++;
      return ask(...args);
    };
    Date.now = () => now() + ahead;
    const move = () => window.dispatchEvent(new Event("pointermove"));
    const pass = async () => { for (let i = 0; i < 20; i++) await ask(location.href); };
    move();
    while (asked < 3) await pass();
    ahead += 120_000;
    await pass();
    const before = asked;
    await pass();
    const after = asked;
    move();
    while (asked === after) await pass();
    return [before, after];
  });
  assert.equal(after, before);
});

test("rules that are typed while others come in force stay", async (t) => {
  const { page } = await begin(t, {}, "?panel=network");
  const rules = page.getByRole("tabpanel", { name: "Network" });
  await rules.getByLabel("reach what is listed, within the server's rules").check();
  const hosts = rules.getByLabel("Hosts, networks and addresses");
  await hosts.fill("one.example.com");
  let go = () => {};
  const sent = new Promise<void>((resolve) => (go = resolve));
  await page.route(/\/network$/, (route) => (route.request().method() === "GET" ? route.fallback() : void sent.then(() => route.fulfill({ json: {} }))));
  await named(page, "Put in force").click();
  await named(page, "Changing …").waitFor();
  await hosts.fill("one.example.com\ntwo.example.com");
  const read = page.waitForResponse((answer) => answer.request().method() === "GET" && answer.url().endsWith("/network"));
  go();
  await read;
  await named(page, "Put in force").waitFor();
  assert.equal(await hosts.inputValue(), "one.example.com\ntwo.example.com");
});

test("presets are shown, and stay in force with other rules", async (t) => {
  const { v, page, session } = await begin(t);
  await page.route(/\/network$/, (route) => (route.request().method() === "GET"
    ? route.fulfill({ json: { network_policy: "allowlist", egress: { presets: ["pip"] } } }) : route.fulfill({ json: {} })));
  await v.open(`sandbox/sessions/${session.id}?panel=network`);
  await page.getByText("Reaches preset:pip").waitFor();
  const rules = page.getByRole("tabpanel", { name: "Network" });
  await rules.getByLabel("Hosts, networks and addresses").fill("one.example.com\npreset:pip");
  const sent = page.waitForRequest((request) => request.method() === "PUT" && request.url().endsWith("/network"));
  await named(page, "Put in force").click();
  assert.deepEqual((await sent).postDataJSON(), { network_policy: "allowlist", egress: { hosts: ["one.example.com"], presets: ["pip"] } });
});

test("rules that the server refuses stay as they were typed", async (t) => {
  const { v, page } = await begin(t, {}, "?panel=network");
  v.allow(/403/);
  const rules = page.getByRole("tabpanel", { name: "Network" });
  const listed = rules.getByLabel("reach what is listed, within the server's rules");
  await listed.check();
  const hosts = rules.getByLabel("Hosts, networks and addresses");
  await hosts.fill("refused.example.com");
  await named(page, "Put in force").click();
  await rules.getByRole("alert").waitFor();
  // The page reads the rules again when their tab is left, and when it is shown again.
  for (const name of ["Runs", "Network"]) {
    const read = page.waitForResponse((answer) => answer.request().method() === "GET" && answer.url().endsWith("/network"));
    await page.getByRole("tab", { name }).click();
    await read;
  }
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))));
  assert.ok(await listed.isChecked());
  assert.equal(await hosts.inputValue(), "refused.example.com");
});

test("a preview that was ended is not offered", async (t) => {
  const place = await serve(t, { set: ["preview_domain=preview.localhost"] });
  const { page, session } = await begin(t, {}, "", place);
  await session.start(["python3", "-m", "http.server", "8123"]);
  await page.getByRole("tab", { name: "Ports" }).click();
  await named(page, "Preview").click();
  await page.getByRole("link", { name: "Open the preview of port 8123" }).waitFor();
  await named(page, "End").click();
  await page.getByRole("heading", { name: "Previews" }).waitFor({ state: "detached" });
  assert.equal(await page.getByRole("link", { name: "Open the preview of port 8123" }).count(), 0);
});

test("a session is copied, saved and hibernated, and another begins with its files", async (t) => {
  const { v, page, session } = await begin(t, { "kept.txt": "kept" });
  await named(page, "Copy, save, hibernate").click();
  const dialog = page.getByRole("dialog", { name: "Copy, save, hibernate" });
  await dialog.getByRole("button", { name: "Make copies" }).click();
  const copy = dialog.getByRole("link").first();
  await copy.waitFor();
  const id = (await copy.getAttribute("href"))!.split("/").at(-1)!;
  assert.equal(await v.api.sessions.use(id).files.text("kept.txt"), "kept");
  await dialog.getByLabel("Name").fill("<b>mine</b>");
  await dialog.getByRole("button", { name: "Save", exact: true }).click();
  await dialog.getByText("It is in the list").waitFor();
  await alsoAccessible(page, "session-keep");
  await dialog.getByRole("button", { name: "Hibernate" }).click();
  await page.getByRole("heading", { name: "The session hibernates" }).waitFor();
  assert.equal((await session.get()).state, "hibernated");

  await v.open("sandbox/sessions");
  await page.getByRole("button", { name: "New session with <b>mine</b>" }).click();
  await page.getByText("It begins with the files of").waitFor();
  await page.getByRole("dialog", { name: "New session" }).getByRole("button", { name: "Create" }).click();
  await page.getByRole("treeitem").getByText("kept.txt").waitFor();
  await v.open("sandbox/sessions");
  await page.getByRole("button", { name: "Remove <b>mine</b>" }).click();
  await named(page, "Remove it").click();
  await page.getByRole("button", { name: "Remove <b>mine</b>" }).waitFor({ state: "detached" });
});

test("on a phone, what the search finds is in sight", async (t) => {
  const { page } = await begin(t, Object.fromEntries(["a", "b"].map((name) => [`${name}.txt`, "the same line"])));
  await page.setViewportSize({ width: 390, height: 800 });
  await page.locator(".files").getByRole("button", { name: "Search" }).click();
  await page.getByLabel("Text to find").fill("same");
  await page.keyboard.press("Enter");
  await page.getByText("2 matches in 2 files.").waitFor();
  assert.ok(await page.locator(".search").evaluate((e) => e.scrollHeight <= e.clientHeight), "nothing is cut");
});

test("on a phone, the name of a file that is not saved can be read", async (t) => {
  const { page } = await begin(t, { "mixed.txt": "a\r\nb\n" }, "?file=mixed.txt");
  await page.setViewportSize({ width: 360, height: 740 });
  await retype(page, "changed");
  await page.getByText("● not saved").waitFor();
  const bar = page.locator(".file .bar");
  assert.ok((await bar.getByText("mixed.txt").boundingBox())!.width > 50);
  assert.ok(await bar.evaluate((e) => e.scrollWidth <= e.clientWidth), "nothing is cut");
});

test("changes that are not saved outlive hibernation", async (t) => {
  const { page, session } = await begin(t, { "a.txt": "a" });
  await session.exec("touch -d 2020-01-01 a.txt");
  await page.goto(`${page.url()}?file=a.txt`);
  await editor(page).getByText("a", { exact: true }).waitFor();
  const json = await session.files.stat("a.txt");
  await page.route(/fs\/stat/, (route) => route.fulfill({ json: { ...json } })); // a look at the file would wake the session
  await retype(page, "changed");
  await session.hibernate({ force: true });
  await page.getByRole("heading", { name: "The session hibernates" }).waitFor();
  await page.getByText("Your changes to a.txt are not saved.").waitFor();
  assert.ok(await asks(page), "the browser asks before it forgets them");
  await page.getByRole("link", { name: "Runs", exact: true }).click();
  await page.getByRole("heading", { name: "Runs", level: 1 }).waitFor();
  assert.ok(await asks(page), "on every page");
  await page.goBack();
  await named(page, "Wake it").click();
  await editor(page).getByText("changed").waitFor();
  await editor(page).click();
  await page.keyboard.press("Control+s");
  await page.getByText("● not saved").waitFor({ state: "detached" });
  assert.equal(await session.files.text("a.txt"), "changed");
});

test("a session that has ended says so, and offers another", async (t) => {
  const { v, page, session } = await begin(t, { "a.txt": "a" }, "?file=a.txt");
  await editor(page).getByText("a", { exact: true }).waitFor();
  await retype(page, "changed");
  v.allow(/409/); // the page may load the files at the moment when the session ends
  await named(page, "End session").click();
  await named(page, "End it").click();
  await page.getByRole("heading", { name: "This session has ended" }).waitFor();
  await page.getByText("Its files and terminals are gone.").waitFor();
  await page.getByText("Your changes to a.txt were not saved.").waitFor();
  assert.ok(await asks(page), "the browser asks before it forgets them");
  assert.equal((await session.get()).state, "closed");
  await alsoAccessible(page, "session-ended");
  await named(page, "Discard it").click();
  await page.getByText("Your changes to a.txt were not saved.").waitFor({ state: "detached" });
  assert.equal(await asks(page), false, "discarded text needs no question");
  await named(page, "Open a new one with its image and limits").click();
  await until("another session is shown", () => /sessions\/[0-9a-f-]{36}/.test(page.url()) && !page.url().includes(session.id));
  await page.getByText("The workspace is empty.").waitFor();
  assert.equal((await v.api.sessions.use(page.url().split("/").at(-1)!).get()).limits.memory_mb, 300);

  const nameless = await v.api.sessions.create({ base_image: "host", labels: { name: "" } });
  await v.open(`sandbox/sessions/${nameless.id}`);
  await page.getByRole("heading", { level: 1, name: /^Session …/ }).waitFor();

  v.allow(/404/);
  await v.open("sandbox/sessions/01990000-0000-7000-8000-000000000000");
  await page.getByRole("heading", { name: "There is no such session, or it is not yours" }).waitFor();
});

test("after a session with a template and a volume, another has them, too", async (t) => {
  const { v, page, session } = await begin(t);
  await session.destroy();
  await page.route(new RegExp(`/api/.*/sessions/${session.id}$`), async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...await answer.json(), template: "data", workspace: { medium: "disk", mb: 64, volume: "kept" } } });
  });
  v.allow(/409/);
  await page.route(/\/sessions(\?|$)/, (route) => (route.request().method() === "POST" ? route.fulfill({ status: 409, json: { error: { code: "conflict", message: "the volume is in use" } } }) : route.continue()));
  await v.open(`sandbox/sessions/${session.id}`);
  const sent = page.waitForRequest((request) => request.method() === "POST" && /\/sessions(\?|$)/.test(request.url()));
  await named(page, "Open a new one with its image and limits").click();
  const { base_image, template, workspace, resources } = (await sent).postDataJSON() as { [name: string]: Record<string, number> };
  assert.deepEqual([base_image, template, workspace, resources!["workspace_mb"], resources!["memory_mb"]], [undefined, "data", { volume: "kept", mb: 64 }, undefined, 300]);
  await page.getByText("The volume is in use.").waitFor();
});

test("the page is accessible, in both themes and on a phone", async (t) => {
  const { page } = await begin(t, { "src/a.py": "def f():\n    return 'x'\n", "b.txt": "b" }, "?file=src%2Fa.py&line=1");
  await editor(page).getByText("return").waitFor();
  await page.getByRole("button", { name: "Open a terminal" }).click();
  await page.locator(".xterm-screen").waitFor();
  await accessible(page, "session");
  for (const panel of ["Runs", "Ports", "Network", "Usage"]) {
    await page.getByRole("tab", { name: panel, exact: true }).click();
    await accessible(page, `session-${panel.toLowerCase()}`);
  }
});
