// The parts around every page.
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, alsoAccessible, serve, visit } from "./world.ts";

test("an unknown path has a page, too", async (t) => {
  const v = await visit(t);
  await v.open("sandbox/nothing/here");
  await v.page.getByRole("heading", { name: "There is no such page" }).waitFor();
  await accessible(v.page, "unknown");
  await v.page.getByRole("link", { name: "your runs" }).click();
  await v.page.getByRole("heading", { name: "Runs", exact: true }).waitFor();
});

test("without JavaScript the page says what else there is", async (t) => {
  const v = await visit(t, { javaScript: false });
  await v.page.goto(`${v.place.url}/webui/sandbox/runs`);
  const said = v.page.locator("noscript p"); // locators by text ignore noscript
  await said.waitFor();
  assert.match(await said.innerText(), /This page needs JavaScript/);
  await v.page.locator("noscript a").click();
  await v.page.waitForURL(`${v.place.url}/docs`);
});

test("the root leads browsers to the page", async (t) => {
  const v = await visit(t);
  await v.page.goto(v.place.url);
  await v.page.waitForURL(/\/webui\//);
  await v.page.locator("main h1").waitFor();
});

test("keys lead everywhere, and ? lists them", async (t) => {
  const v = await visit(t);
  await v.open("sandbox/runs");
  await v.page.keyboard.press("?");
  await v.page.getByRole("dialog", { name: "Keys" }).waitFor();
  await accessible(v.page, "keys");
  await v.page.keyboard.press("Escape");
  await v.page.getByRole("dialog").waitFor({ state: "detached" });
  await v.page.keyboard.press("g");
  await v.page.keyboard.press("s");
  await v.page.getByRole("heading", { name: "Sessions", exact: true }).waitFor();
  await v.page.keyboard.press("Tab");
  await v.page.getByLabel("Show those that have ended, too").focus();
  await v.page.keyboard.press("Space");
  await v.page.waitForURL(/all=true/);
});

test("the colours are the system's, unless they are chosen", async (t) => {
  const v = await visit(t);
  await v.open("sandbox/runs");
  const ground = () => v.page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  await v.page.emulateMedia({ colorScheme: "dark" });
  const dark = await ground();
  await v.page.emulateMedia({ colorScheme: "light" });
  const light = await ground();
  assert.notEqual(dark, light);
  await v.page.getByRole("button", { name: "Colours: system" }).click();
  await v.page.getByRole("button", { name: "Colours: light" }).click();
  await v.page.getByRole("button", { name: "Colours: dark" }).waitFor();
  assert.equal(await ground(), dark);
  await v.page.reload();
  assert.equal(await ground(), dark);
});

test("a long name of a user makes the top no higher", async (t) => {
  const v = await visit(t, { user: `a-very-long-name-of-a-user@with-a-long-domain-${process.pid}.example.com` });
  await v.open("sandbox/runs");
  await v.page.getByRole("banner").getByText(v.user).waitFor();
  assert.ok((await v.page.getByRole("banner").boundingBox())!.height < 70);
});

test("with the colours of high contrast, what is chosen is seen", async (t) => {
  const v = await visit(t);
  const { id } = await v.api.run({ command: ["seq", "9"] });
  await v.page.emulateMedia({ forcedColors: "active" });
  await v.open(`sandbox/runs/${id}#L3`);
  await v.page.getByLabel("Search in the log").fill("5");
  await v.page.locator(".hit").first().waitFor();
  await v.page.locator("button[aria-pressed=true]").first().waitFor();
  const ground = async (at: string) => (await v.page.locator(at).first().evaluate((e) => getComputedStyle(e).backgroundColor)).replace("rgba(255, 255, 255, 0)", "rgb(255, 255, 255)");
  const others = ".line:not(.chosen):not(.current)";
  for (const [one, other] of [["nav a[aria-current]", "nav a:not([aria-current])"], [".line.chosen", others], [".hit", `${others} .text`], ["button[aria-pressed=true]", "button[aria-pressed=false]"]] as const) {
    assert.notEqual(await ground(one), await ground(other), one);
  }
  await v.page.emulateMedia({ forcedColors: null });
});

test("a server that is away is said, asked again, and welcomed back", async (t) => {
  const first = await serve(t);
  const v = await visit(t, { place: first });
  v.allow(/Failed to load resource.*ERR_(CONNECTION|EMPTY_RESPONSE|INCOMPLETE)/); // the last two are from requests in progress
  await v.api.run({ command: ["true"] });
  await v.open("sandbox/sessions");
  await v.page.getByRole("heading", { name: "No session is open" }).waitFor();
  await first.kill();
  const place = async () => (await v.page.getByRole("main").boundingBox())!.y;
  const before = await place();
  await v.page.getByRole("link", { name: "Runs", exact: true }).click();
  const banner = v.page.getByRole("status").filter({ hasText: "The server does not answer." });
  await banner.waitFor();
  await banner.getByText(/Next try in \d+ s/).waitFor();
  assert.equal(await place(), before, "nothing moves");
  await alsoAccessible(v.page, "away");
  await serve(t, { data: first.data, listen: new URL(first.url).host });
  await banner.getByRole("button", { name: "Try now" }).click({ timeout: 5000 }).catch(() => {}); // the page may have reconnected already
  await banner.waitFor({ state: "detached" });
  await v.page.getByRole("alert").getByRole("button", { name: "Try again" }).click(); // the page of runs had failed to load
  await v.page.getByRole("row").filter({ hasText: "true" }).waitFor();
});

test("a server that hangs is reported, too", async (t) => {
  const v = await visit(t);
  v.allow(/ERR_TIMED_OUT/);
  await v.inject(() => {
    const later = window.setTimeout;
    Object.assign(window, { setTimeout: (run: TimerHandler, ms?: number, ...args: unknown[]) => later(run, ms === 10_000 ? 0 : ms, ...args) });
  });
  await v.open("sandbox/sessions");
  await v.page.getByRole("heading", { name: "No session is open" }).waitFor();
  await v.page.route(/\/healthz$/, (route) => route.abort("timedout"));
  await v.page.route(/\/sandbox\/runs\?/, () => {}); // never answers
  await v.page.getByRole("link", { name: "Runs", exact: true }).click();
  await v.page.getByRole("status").filter({ hasText: "The server does not answer." }).waitFor();
});
