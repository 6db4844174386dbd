import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, alsoAccessible, atEnd, until, visit } from "./world.ts";

test("a session is made, listed and ended", async (t) => {
  const v = await visit(t);
  const { page } = v;
  await v.open("sandbox/sessions");
  await page.getByRole("heading", { name: "No session is open" }).waitFor();
  await alsoAccessible(page, "sessions-empty");
  await page.getByRole("button", { name: "New session" }).first().click();
  const dialog = page.getByRole("dialog", { name: "New session" });
  await dialog.getByLabel("Image").fill("no such image!");
  await alsoAccessible(page, "sessions-new");
  v.allow(/400/);
  await dialog.getByRole("button", { name: "Create" }).click();
  await dialog.locator("[aria-invalid=true], [role=alert]").first().waitFor();
  await dialog.getByLabel("Image").fill("host");
  await dialog.getByLabel("Lifetime").selectOption({ label: "15 minutes" });
  await dialog.getByRole("button", { name: "Create" }).click();
  await page.waitForURL(/\/sessions\/[0-9a-f-]{36}$/);
  const id = page.url().split("/").at(-1)!;
  const state = await v.api.sessions.use(id).get();
  const left = Date.parse(state.expires_at) - Date.now();
  assert.ok(left > 600_000 && left <= 900_000, `${left} ms`);

  await v.open("sandbox/sessions?offset=50"); // after the last page: the sessions that were there have ended
  const item = page.getByRole("listitem").filter({ hasText: id.slice(-8) });
  await item.getByText("active").waitFor();
  assert.equal(new URL(page.url()).search, "");
  await accessible(page, "sessions");
  await item.getByRole("button", { name: /^End/ }).click();
  const sure = page.getByRole("dialog", { name: "End this session?" });
  await alsoAccessible(page, "sessions-end");
  for (const leave of ["Escape", "Enter"]) {
    if (leave === "Enter") await sure.getByRole("button", { name: "Keep it" }).focus();
    await page.keyboard.press(leave);
    await sure.waitFor({ state: "detached" });
    // The button that opened the question has the focus again.
    assert.equal(await item.getByRole("button", { name: /^End/ }).evaluate((e) => e === document.activeElement), true, leave);
    if (leave === "Escape") await page.keyboard.press("Enter");
  }
  await item.getByRole("button", { name: /^End/ }).click();
  await sure.getByRole("button", { name: "End it" }).click();
  await item.waitFor({ state: "detached" });
  assert.equal((await v.api.sessions.use(id).get()).state, "closed");
  await page.getByLabel("Show those that have ended, too").check();
  await page.getByRole("listitem").filter({ hasText: id.slice(-8) }).getByText("closed").waitFor();
});

test("a session of a snapshot begins with the image of the session that was saved", async (t) => {
  const v = await visit(t);
  const { page } = v;
  const session = await v.api.sessions.create({ base_image: "host" });
  await session.snapshot({ name: "kept" });
  await session.snapshot({ name: "the results of the first and the second night" });
  await page.route(new RegExp(`/api/.*/sessions/${session.id}$`), async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...await answer.json(), base_image: "python:3.12" } });
  });
  await v.open("sandbox/sessions");
  const name = page.getByText("the results of the first and the second night", { exact: true });
  await name.waitFor();
  await alsoAccessible(page, "snapshots");
  await page.setViewportSize({ width: 390, height: 800 });
  assert.ok(await name.evaluate((e) => e.parentElement!.scrollWidth <= e.parentElement!.clientWidth), "a name can be read on a phone");
  await page.getByRole("button", { name: "New session with kept" }).click();
  const image = page.getByRole("dialog").getByLabel("Image");
  await until("its image", async () => (await image.inputValue()) === "python:3.12");
});

const hostile = ["<img src=x onerror=window.hit=1>", "\u202egnp.exe", "a".repeat(120), "'\"><script>window.hit=1</script>"];

test("hostile names are text", async (t) => {
  const v = await visit(t);
  v.allow(/40[04]/); // the server may refuse such names
  await v.api.run({ command: ["echo", ...hostile, "\u0007\u001b[31m"] });
  const session = await v.api.sessions.open({ base_image: "host", scope: { namespace: "user", id: "1", key: hostile[0]! } });
  atEnd(t, () => session.destroy());
  await v.open(`sandbox/runs?q=${encodeURIComponent(hostile[0]!)}&image=${encodeURIComponent(hostile[3]!)}`);
  const isText = async () => {
    assert.equal(await v.page.evaluate(() => (window as unknown as { hit?: number }).hit), undefined);
    assert.equal(await v.page.locator("main img, main script").count(), 0);
  };
  await v.page.getByRole("heading", { name: "No run matches" }).waitFor();
  await isText();
  await v.open("sandbox/runs");
  await v.page.getByRole("row").filter({ hasText: hostile[0]! }).filter({ hasText: "⟨202E⟩gnp.exe" }).waitFor();
  await isText();
  await alsoAccessible(v.page, "runs-hostile");
  await v.open("sandbox/sessions");
  await v.page.getByRole("listitem").filter({ hasText: "active" }).filter({ hasText: hostile[0]! }).waitFor();
  await isText();
  await alsoAccessible(v.page, "sessions-hostile");
  await v.open(`sandbox/${encodeURIComponent("'\"><script>alert(1)</script>\u202e")}`);
  await v.page.getByRole("heading", { name: "There is no such page" }).waitFor();
  await isText();
});
