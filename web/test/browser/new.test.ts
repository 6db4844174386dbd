// The page for a new run, and a visitor's first steps.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { soak } from "./tier.ts";
import { accessible, alsoAccessible, serve, tempDir, visit, within } from "./world.ts";

/** write replaces the program in the editor. */
async function write(page: Page, code: string): Promise<void> {
  await page.locator(".cm-content").click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(code);
}

/** drop drops a file or folder of this machine on the files. */
async function drop(page: Page, path: string): Promise<void> {
  const { x, y } = (await page.getByRole("group", { name: "Files" }).boundingBox())!;
  const devtools = await page.context().newCDPSession(page);
  const data = { items: [], files: [path], dragOperationsMask: 1 };
  for (const type of ["dragEnter", "dragOver", "drop"] as const) await devtools.send("Input.dispatchDragEvent", { type, x: x + 20, y: y + 5, data });
  await devtools.detach();
}

/** press runs the program, and waits for the page of its run. */
async function press(page: Page, outcome: RegExp): Promise<string> {
  await page.keyboard.press("Control+Enter");
  await page.waitForURL(/\/sandbox\/runs\/[0-9a-f-]{36}$/);
  await page.getByRole("heading", { level: 1, name: outcome }).waitFor();
  return page.url().split("/").at(-1)!;
}

test("the first hour: sign in, a plot, a failure, a fix, a session, a host that has to be approved", soak, async (t) => {
  const place = await serve(t, { set: ["approval=network", "egress_allow=api.example.com"] });
  const v = await visit(t, { place, signedIn: false });
  const { page } = v;
  const { code } = await v.api.loginLink();
  await page.goto(`${place.url}/webui/#k=${code}`);

  // One click runs the example, and shows its picture.
  await page.getByRole("heading", { name: "New run" }).waitFor();
  await page.locator(".cm-content").waitFor();
  await accessible(page, "new");
  await press(page, /^Completed/);
  await page.locator(".log").getByText("wrote wave.svg").waitFor();
  await page.waitForFunction(() => [...document.images].some((i) => i.alt === "wave.svg" && i.complete && i.naturalWidth > 0));

  // It is run again with a change, fails, and is fixed.
  await page.getByRole("link", { name: "Run again" }).or(page.getByRole("button", { name: "Run again" })).click();
  await page.locator(".cm-content", { hasText: "wave.svg" }).waitFor();
  await write(page, "print(1 / 0)");
  await press(page, /^Failed after .*: exit status 1$/);
  await page.locator(".log").getByText("ZeroDivisionError").waitFor();
  await page.goBack();
  await page.locator(".cm-content", { hasText: "1 / 0" }).waitFor();
  await write(page, "print(input())");
  await page.locator("summary", { hasText: "Input and output" }).click();
  await page.getByLabel("Standard input").fill("typed before");
  await press(page, /^Completed/);
  await page.locator(".log").getByText("typed before").waitFor();
  assert.equal(await page.locator(".warning").count(), 0, "files are captured by default, and a run without files is no news");

  // Files that are too large for a request go into a session, where the run starts.
  await page.goto(`${place.url}/webui/sandbox`);
  await page.locator(".cm-content").waitFor();
  const large = Buffer.alloc(1_200_000, "x");
  await page.getByLabel("Files to add").setInputFiles([{ name: "large.txt", mimeType: "text/plain", buffer: large }]);
  await page.getByLabel("Files to add").setInputFiles([{ name: "other.txt", mimeType: "text/plain", buffer: large }]);
  await page.getByRole("button", { name: "Create a session with 2 files" }).click();
  await page.getByRole("alert").waitFor({ state: "detached" });
  await write(page, "import os\nprint('bytes:', os.path.getsize('large.txt') + os.path.getsize('other.txt'))\nopen('left.txt', 'w').write('left')");
  const inSession = await press(page, /^Completed/);
  await page.locator(".log").getByText("bytes: 2400000").waitFor();
  const { session_id: session } = await v.api.runs.get(inSession);
  await page.goto(`${place.url}/webui/sandbox/sessions/${session}`);
  await page.getByRole("treeitem", { name: "left.txt" }).waitFor();

  // An allowed host needs an approval; a host that is not allowed is refused at its field.
  await page.goto(`${place.url}/webui/sandbox`);
  await page.locator(".cm-content").waitFor();
  await page.getByLabel("Session").selectOption("");
  await write(page, "import socket\nfor host in ('api.example.com', 'other.example.org'):\n    try: socket.getaddrinfo(host, 443); print(host, 'has an address')\n    except OSError as e: print(e)");
  await page.locator("summary", { hasText: "Network and packages" }).click();
  await page.getByLabel("Hosts it may reach").fill("https://api.example.com/path");
  v.allow(/400/);
  await page.keyboard.press("Control+Enter");
  await page.locator("[aria-invalid=true]").waitFor();
  assert.equal(await page.locator("[aria-invalid=true]").count(), 1);
  await page.getByLabel("Hosts it may reach").fill("api.example.com");
  const waiting = await press(page, /wait|approv/i);
  await accessible(page, "run-waits");
  const boss = await visit(t, { place, role: "admin" });
  await boss.open("sandbox/approvals");
  await boss.page.getByRole("article").filter({ hasText: v.user }).getByRole("button", { name: "Approve" }).click();
  await page.getByRole("heading", { level: 1, name: /^Completed/ }).waitFor();
  await page.getByRole("region", { name: "Network" }).getByText("other.example.org").waitFor();
  assert.equal((await v.api.runs.get(waiting)).phase, "completed");
});

test("a request in every detail, and an earlier one again", async (t) => {
  const v = await visit(t);
  const { page } = v;
  await v.open("sandbox");
  await page.getByText("Command", { exact: true }).first().click();
  await page.getByRole("textbox", { name: "Command" }).fill(`sh -c 'echo "$NAME" >&2; cat data/in.txt; cp data/in.txt out.csv' "two words"`);
  const data = `${tempDir(t)}/data`;
  mkdirSync(data);
  writeFileSync(`${data}/in.txt`, "a,b\n1,2\n");
  await drop(page, data);
  await page.getByText("1 file, 8 B").waitFor();
  await page.getByLabel("Time, s").fill("20");
  await page.getByLabel("Memory, MiB").fill("64");
  await page.locator("summary", { hasText: "Input and output" }).click();
  await page.getByLabel("Standard input").fill("x");
  await page.keyboard.press("Backspace");
  await page.evaluate(() => new Promise(requestAnimationFrame));
  assert.ok(await page.getByLabel("Standard input").isVisible(), "a field that is emptied stays");
  await page.getByLabel("Environment").fill("NAME=<b>name</b>\nOTHER=x=y");
  const id = await press(page, /^Completed/);
  await page.locator(".log").getByText("<b>name</b>").waitFor();
  await page.getByRole("region", { name: "Artifacts" }).getByText("out.csv").waitFor();
  const run = await v.api.runs.get(id);
  assert.deepEqual(run.command?.at(-1), "two words");
  assert.equal(run.resource_usage?.limits?.memory_mb, 64);
  assert.equal(run.resource_usage?.limits?.timeout_sec, 20);

  // This tab has the whole request. Another browser has the server's fields, and lists the missing ones.
  await page.goto(`${v.place.url}/webui/sandbox?from=${id}`);
  await page.getByRole("listitem").filter({ hasText: "in.txt" }).waitFor();
  assert.equal(await page.getByLabel("Environment").inputValue(), "NAME=<b>name</b>\nOTHER=x=y");
  const other = await v.tab();
  let tell = () => {};
  const told = new Promise<void>((resolve) => (tell = resolve));
  await other.route(new RegExp(`runs/${id}$`), (route) => void told.then(() => route.continue()));
  await v.open(`sandbox?from=${id}`, other);
  await other.getByRole("button", { name: /^Run/ }).waitFor();
  assert.ok(await other.getByRole("button", { name: /^Run/ }).isDisabled(), "nothing else runs before it is known");
  assert.ok(!(await other.getByLabel("Time, s").isVisible()), "nothing is typed that it would replace");
  tell();
  await other.getByRole("status").getByText("not its files").waitFor();
  assert.match(await other.getByRole("textbox", { name: "Command" }).inputValue(), /'two words'$/);
  // One that is not known leaves what was there.
  v.allow(/404/);
  await v.open("sandbox?from=01990000-0000-7000-8000-000000000000", other);
  await other.getByRole("alert").waitFor();
  assert.match(await other.getByRole("textbox", { name: "Command" }).inputValue(), /'two words'$/);
});

test("a run of elsewhere brings its other limits, which can be left out", async (t) => {
  const v = await visit(t);
  const { page } = v;
  const resources = { pids: 64, nofile: 512, memory_mb: 300 };
  const { id } = await v.api.run({ command: ["true"], resources });
  const { id: usual } = await v.api.run({ command: ["true"] });
  const line = page.getByText("With the other limits of that run: pids 64, nofile 512", { exact: false });
  await v.open(`sandbox?from=${id}`);
  await line.waitFor();
  await alsoAccessible(page, "new-again");
  const again = await v.api.runs.get(await press(page, /^Completed/));
  const { pids, nofile, memory_mb } = again.resource_usage!.limits!;
  assert.deepEqual({ pids, nofile, memory_mb }, resources);
  await v.open(`sandbox?from=${again.id}`);
  await line.waitFor();
  await page.getByRole("button", { name: "Leave the limits out" }).click();
  await line.waitFor({ state: "detached" });
  const { limits } = (await v.api.runs.get(await press(page, /^Completed/))).resource_usage!;
  assert.deepEqual([limits!.nofile, limits!.memory_mb], [(await v.api.me()).limits.nofile, 300]);
  await v.open(`sandbox?from=${usual}`);
  await page.getByRole("status").getByText("not its files").waitFor();
  assert.equal(await page.getByText("other limits").count(), 0);
});

test("a command that the server has not kept whole does not run as it is", async (t) => {
  const v = await visit(t);
  const { page } = v;
  const { id } = await v.api.run({ command: ["true"] });
  await page.route(new RegExp(`runs/${id}$`), async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...await answer.json(), command: ["rm", "-rf", "build/"], command_truncated: true } });
  });
  await v.open(`sandbox?from=${id}`);
  const warning = page.getByRole("status").filter({ hasText: "The command was longer" });
  await warning.waitFor();
  await page.keyboard.press("Control+Enter");
  await page.getByRole("alert").getByText("only its beginning").waitFor();
  await page.reload();
  await warning.waitFor();
  await page.getByRole("textbox", { name: "Command" }).fill("echo whole");
  await warning.waitFor({ state: "detached" });
  await press(page, /^Completed/);
});

test("a session for large files has what the form asks of its sandbox", async (t) => {
  const v = await visit(t);
  const { page } = v;
  await v.open("sandbox");
  await page.getByLabel("Memory, MiB").fill("300");
  await page.getByLabel("Let programs in the workspace be executed").check();
  const file = (name: string, size: number) => page.getByLabel("Files to add").setInputFiles([{ name, mimeType: "text/plain", buffer: Buffer.alloc(size, "x") }]);
  await file("large.txt", 1_200_000);
  let go = () => {};
  const held = new Promise<void>((resolve) => (go = resolve));
  await page.route(/fs\/raw/, (route) => void held.then(() => route.continue()));
  await page.getByRole("button", { name: "Create a session with 1 file" }).click();
  await page.getByRole("button", { name: "Uploading …" }).waitFor();
  await page.getByText("A request carries files of 1 MB together.").waitFor();
  await file("more.txt", 1_100_000); // meanwhile
  go();
  await page.getByRole("button", { name: "Create a session with 1 file" }).waitFor();
  const session = v.api.sessions.use(await page.getByLabel("Session", { exact: true }).inputValue());
  assert.equal((await session.get()).limits.memory_mb, 300);
  assert.equal((await session.exec("printf '#!/bin/sh\necho executed' > tool; chmod +x tool; ./tool")).stdout, "executed\n");
});

test("a page with files on their way to a new session is left after a question only, and the session ends", async (t) => {
  const v = await visit(t);
  const { page } = v;
  await v.open("sandbox");
  await page.getByLabel("Files to add").setInputFiles([{ name: "large.txt", mimeType: "text/plain", buffer: Buffer.alloc(1_200_000, "x") }]);
  let go = () => {};
  const sent = new Promise<void>((resolve) => void page.route(/fs\/raw/, async (route) => {
    resolve();
    await new Promise<void>((on) => (go = on));
    await route.continue().catch(() => {}); // the page has cancelled it
  }, { times: 1 }));
  await page.getByRole("button", { name: "Create a session with 1 file" }).click();
  await within("the upload", sent);
  assert.ok(await page.evaluate(() => !dispatchEvent(new Event("beforeunload", { cancelable: true }))), "the browser asks before it closes the page");
  const leave = async (does: "accept" | "dismiss") => {
    let asked = "";
    page.once("dialog", (d) => { asked = d.message(); void d[does](); });
    await page.getByRole("link", { name: "Runs", exact: true }).click();
    assert.match(asked, /upload/);
  };
  await leave("dismiss");
  await page.getByRole("button", { name: "Uploading …" }).waitFor();
  const ended = page.waitForEvent("requestfailed", (request) => /fs\/raw/.test(request.url()));
  const removed = page.waitForResponse((answer) => answer.request().method() === "DELETE" && /\/sessions\//.test(answer.url()));
  await leave("accept");
  await ended;
  await page.waitForURL(/sandbox\/runs$/);
  assert.ok((await removed).ok());
  go();
});

test("a run that starts late does not come in front of another page", soak, async (t) => {
  const v = await visit(t);
  const { page } = v;
  await v.open("sandbox");
  await page.getByText("Command", { exact: true }).first().click();
  await page.getByRole("textbox", { name: "Command" }).fill("true");
  let go = () => {};
  const asked = new Promise<void>((resolve) => void page.route(/sandbox\/runs\?wait/, async (route) => {
    const answer = await route.fetch();
    resolve();
    await new Promise<void>((on) => (go = on));
    await route.fulfill({ response: answer });
  }, { times: 1 }));
  await page.getByRole("button", { name: /^Run/ }).click();
  await within("the question", asked);
  await page.getByRole("link", { name: "Sessions" }).click();
  await page.getByRole("heading", { name: "No session is open" }).waitFor();
  const said = page.locator("[aria-live=polite]").last().filter({ hasText: "The run has started" });
  go();
  await said.waitFor({ state: "attached" });
  assert.equal(new URL(page.url()).pathname, "/webui/sandbox/sessions");
});

test("a reload loses nothing, and fields that cannot be sent have errors", async (t) => {
  const v = await visit(t);
  const { page } = v;
  await v.open("sandbox");
  await page.getByLabel("Language").selectOption("shell");
  await page.locator(".cm-content", { hasText: "step $i of 5" }).waitFor();
  await write(page, "echo kept");
  await page.getByLabel("Files to add").setInputFiles([{ name: "in.txt", mimeType: "text/plain", buffer: Buffer.from("x") }]);
  await page.getByText("1 file, 1 B").waitFor();
  await page.reload();
  await page.locator(".cm-content", { hasText: "echo kept" }).waitFor();
  await page.getByRole("status").getByText("Add in.txt again.").waitFor();
  assert.equal(await page.getByLabel("Language").inputValue(), "shell");

  await page.getByText("Command", { exact: true }).first().click();
  await page.getByRole("textbox", { name: "Command" }).fill("echo 'open");
  await page.getByRole("button", { name: /^Run/ }).click();
  await page.getByRole("alert").getByText("open quote").waitFor();
  await page.getByRole("textbox", { name: "Command" }).fill("true");
  await page.getByLabel("Time, s").pressSequentially("1e");
  await page.getByRole("button", { name: /^Run/ }).click();
  assert.ok(await page.getByLabel("Time, s").evaluate((field) => field === document.activeElement), "what is no number is not left out");
  await page.getByLabel("Time, s").fill("999999");
  v.allow(/40\d|503/);
  await page.getByRole("button", { name: /^Run/ }).click();
  await page.getByRole("alert").getByText(/^Time is limited to \d+ seconds here, got 999999\.$/).waitFor();
  await page.getByLabel("Time, s").fill("");
  await page.getByLabel("Image").fill("not an image!");
  await page.getByRole("button", { name: /^Run/ }).click();
  await page.locator("input[aria-invalid=true]").waitFor();
  await accessible(page, "new-refused");
});
