import assert from "node:assert/strict";
import { test } from "node:test";
import { shown } from "../../src/format.ts";
import { accessible, alsoAccessible, visit } from "./world.ts";

test("operators see everybody's runs and usage", async (t) => {
  const v = await visit(t, { role: "admin" });
  const [one, two] = [await visit(t), await visit(t)];
  await one.api.run({ command: ["echo", "of one"] });
  await two.api.run({ command: ["sh", "-c", "exit 2"] });
  await v.open(`sandbox/admin?user=${one.user}`);
  const row = (text: string) => v.page.getByRole("row").filter({ hasText: text });
  await row("of one").getByText(one.user).waitFor();
  assert.equal(await row("exit 2").count(), 0);
  await v.page.getByLabel("User").fill(two.user);
  await row("exit 2").getByText(two.user).waitFor();
  await accessible(v.page, "admin-runs");
  await v.page.getByLabel("User").fill(`no-${two.user}`);
  await v.page.getByRole("heading", { name: "No run matches" }).waitFor();
  await v.page.getByRole("link", { name: "Usage" }).click();
  await v.page.getByRole("listitem").filter({ hasText: one.user }).waitFor();
  await accessible(v.page, "admin-usage");
  await v.page.getByRole("link", { name: one.user, exact: true }).click();
  await row("of one").waitFor();
});

test("the keys of a user with a long name fit a phone", async (t) => {
  const v = await visit(t, { role: "admin" });
  const user = `${"maximiliane.mustermann".repeat(3)}@example.com-${v.user}`;
  await v.api.tokens.create({ user_id: user, role: "user", name: "" });
  await v.open("sandbox/admin?view=keys");
  const item = v.page.getByRole("listitem").filter({ hasText: user });
  await item.waitFor();
  await v.page.setViewportSize({ width: 390, height: 800 });
  assert.ok(await v.page.evaluate(() => document.documentElement.scrollWidth) <= 390, "the page is not wider than the window");
  const [name, button] = [(await item.locator("bdi").first().boundingBox())!, (await item.getByRole("button", { name: "Revoke" }).boundingBox())!];
  assert.ok(name.x + name.width <= button.x, "the name ends before the button");
});

test("a key is made, shown once, works, and is revoked", async (t) => {
  const v = await visit(t, { role: "admin" });
  // All contexts of a browser share one clipboard.
  await v.inject(() => {
    navigator.clipboard.writeText = async (text) => void Object.assign(window, { copied: text });
  });
  await v.open("sandbox/admin?view=keys");
  await v.page.getByRole("button", { name: "New key" }).click();
  const dialog = v.page.getByRole("dialog", { name: "New key" });
  const user = `new-\u202e${v.user}`;
  await dialog.getByLabel("User", { exact: true }).fill(user);
  await dialog.getByLabel("What it is for").fill("<b>tests</b>");
  await alsoAccessible(v.page, "admin-new-key");
  const { x, y } = (await dialog.getByLabel("What it is for").boundingBox())!;
  await v.page.mouse.move(x + 15, y + 15);
  await v.page.mouse.down();
  await v.page.mouse.move(5, 5);
  await v.page.mouse.up();
  assert.equal(await dialog.count(), 1, "text that is selected with a mouse that goes out closes nothing");
  await dialog.getByRole("button", { name: "Create" }).click();
  await dialog.getByText(`The key of ${shown(user)}. Copy it now: it is not shown again.`).waitFor();
  await alsoAccessible(v.page, "admin-key");
  await dialog.getByRole("button", { name: "Copy" }).click();
  await v.page.waitForFunction(() => "copied" in window);
  await v.page.mouse.click(5, 5);
  await v.page.keyboard.press("Escape");
  await v.page.keyboard.press("Escape"); // a browser may close the dialog on the second press
  await v.page.keyboard.press("g");
  await v.page.keyboard.press("r");
  assert.ok(await dialog.isVisible(), "what cannot be shown again stays");
  const secret = await v.page.evaluate(() => (window as unknown as { copied: string }).copied);
  const me = () => fetch(`${v.place.url}/api/v1/sandbox/me`, { headers: { "X-API-KEY": secret } });
  assert.equal(((await (await me()).json()) as { user_id: string }).user_id, user);
  await dialog.getByRole("button", { name: "I have it" }).click();

  const item = v.page.getByRole("listitem").filter({ hasText: shown(user) });
  await item.getByText("<b>tests</b>").waitFor();
  assert.ok(!(await v.page.content()).includes(secret));
  await accessible(v.page, "admin-keys");
  await item.getByRole("button", { name: "Revoke" }).click();
  await v.page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await item.getByText("revoked", { exact: true }).waitFor();
  assert.equal((await me()).status, 401);
});
