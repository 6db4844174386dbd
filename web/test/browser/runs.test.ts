import assert from "node:assert/strict";
import { test } from "node:test";
import { soak } from "./tier.ts";
import { accessible, alsoAccessible, axe, visit } from "./world.ts";

test("a fresh list of runs says what a run is", async (t) => {
  const v = await visit(t);
  await v.open("sandbox/runs");
  await v.page.getByRole("heading", { name: "No runs yet" }).waitFor();
  await alsoAccessible(v.page, "runs-empty");
  await v.page.getByRole("link", { name: "on this page" }).click();
  await v.page.waitForURL(/\/webui\/sandbox$/);
});

test("runs are listed, filtered, paged and cancelled", async (t) => {
  const v = await visit(t);
  const { page } = v;
  await v.api.run({ command: ["echo", "hello world"] });
  await v.api.run({ command: ["sh", "-c", "exit 3"], labels: { for: "test" } });
  const { id } = await v.api.runs.start({ command: ["sleep", "300"] });

  await v.open("sandbox/runs");
  const row = (text: string) => page.getByRole("row").filter({ hasText: text });
  await row("sleep 300").getByText("running").waitFor();
  assert.match(await row("echo").innerText(), /completed[\s\S]*echo 'hello world'[\s\S]*host/);
  assert.match(await row("exit 3").innerText(), /failed/);
  await accessible(page, "runs");

  // The back button restores the scroll position.
  const { width, height } = page.viewportSize()!;
  await page.setViewportSize({ width, height: 300 });
  await page.evaluate(() => scrollTo(0, 100));
  await row("exit 3").getByRole("link").first().click();
  await page.getByRole("heading", { level: 1, name: /^Failed/ }).waitFor();
  await page.goBack();
  await page.waitForFunction(() => scrollY === 100 && document.activeElement?.id === "main");
  await page.setViewportSize({ width, height });

  // The address is the state: a filter can be linked, reloaded, left and restored.
  await page.getByLabel("Phase").selectOption("failed");
  await page.waitForURL(/phase=failed/);
  await row("echo").waitFor({ state: "detached" });
  await row("exit 3").waitFor();
  await page.reload();
  await row("exit 3").waitFor();
  assert.equal(await row("echo").count(), 0);
  await page.getByRole("link", { name: "Sessions" }).click();
  await page.getByRole("heading", { name: "Sessions", exact: true }).waitFor();
  await page.goBack();
  await row("exit 3").waitFor();
  assert.equal(await page.getByLabel("Phase").inputValue(), "failed");
  await page.getByLabel("Phase").selectOption("queued");
  await page.getByRole("heading", { name: "No run matches" }).waitFor();
  await page.getByRole("link", { name: "Clear" }).click();
  await row("echo").waitFor();

  await v.open("sandbox/runs?offset=1&sort=created_at:desc");
  await row("exit 3").waitFor();
  assert.equal(await row("sleep 300").count(), 0);
  await page.getByText("2–3 of 3").waitFor();
  assert.deepEqual(await axe(page, ["landmark-unique"]), []);
  // Another page of the list is shown from its top.
  await page.setViewportSize({ width, height: 160 });
  await page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));
  await page.getByRole("button", { name: "Previous" }).click();
  await page.waitForFunction(() => !location.search.includes("offset") && scrollY < 120);
  await page.setViewportSize({ width, height });

  // The row updates without a reload.
  await row("sleep 300").getByRole("button", { name: "Cancel" }).click();
  await row("sleep 300").getByText("killed").waitFor();
  await row("sleep 300").getByText("canceled by user").waitFor();
  assert.equal((await v.api.runs.get(id)).phase, "killed");
});

test("text filters work with the keyboard alone", soak, async (t) => {
  const v = await visit(t);
  await v.api.run({ command: ["true"] });
  await v.open("sandbox/runs");
  await v.page.getByRole("row").filter({ hasText: "true" }).waitFor();
  await v.page.getByLabel("Text").focus();
  await v.page.keyboard.type("host");
  await v.page.keyboard.press("Tab"); // immediately
  await v.page.keyboard.type("python");
  await v.page.waitForURL(/q=host&image=python/);
  await v.page.getByRole("heading", { name: "No run matches" }).waitFor();
  await v.page.keyboard.press("Control+A");
  await v.page.keyboard.press("Delete");
  await v.page.getByRole("row").filter({ hasText: "true" }).waitFor();
  await v.page.keyboard.press("Escape");
  // A trailing space begins another word.
  await v.page.getByLabel("Text").fill("");
  await v.page.getByLabel("Text").pressSequentially("two ");
  await v.page.waitForURL(/q=two/);
  await v.page.getByRole("heading", { name: "No run matches" }).waitFor();
  await v.page.getByLabel("Text").pressSequentially("words");
  assert.equal(await v.page.getByLabel("Text").inputValue(), "two words");
});

test("the page waits for a limit of requests, and shows one that lasts", soak, async (t) => {
  const v = await visit(t);
  v.allow(/429/);
  await v.api.run({ command: ["true"] });
  let asked = 0;
  let after = "1";
  await v.page.route(/\/sandbox\/runs\?/, async (route) => {
    if (++asked > 1 && after === "1") return route.continue();
    await route.fulfill({
      status: 429, headers: { "Retry-After": after }, contentType: "application/json",
      body: JSON.stringify({ error: { code: "rate_limited", message: "too many requests", hint: "wait a little" } }),
    });
  });
  await v.open("sandbox/runs");
  await v.page.getByRole("row").filter({ hasText: "true" }).waitFor();
  assert.equal(asked, 2);
  after = "3600";
  await v.page.reload();
  const alert = v.page.getByRole("alert");
  await alert.waitFor();
  assert.match(await alert.innerText(), /Too many requests\.\s+Wait a little\.\s+rate_limited/);
  after = "1";
  await alert.getByRole("button", { name: "Try again" }).click();
  await v.page.getByRole("row").filter({ hasText: "true" }).waitFor();
  await alert.waitFor({ state: "detached" });
});
