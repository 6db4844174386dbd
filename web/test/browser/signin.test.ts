import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { soak } from "./tier.ts";
import { accessible, alsoAccessible, login, operator, until, visit, within } from "./world.ts";

const token = (page: Page) => page.evaluate(() => localStorage.getItem("belljar.token"));
const kept = (page: Page) => page.evaluate(() => JSON.stringify(sessionStorage));
const heading = (page: Page, name: string) => page.getByRole("heading", { name, exact: true, level: 1 });

test("a one-time code signs in, once", async (t) => {
  const v = await visit(t, { signedIn: false });
  v.allow(/\/(empty|favicon\.ico)\)/); // going back to the initial page reloads it, and then it does not exist
  const { code } = await v.api.request<{ code: string }>("POST", "/api/v1/sandbox/login/codes");
  await v.page.goto(`${v.place.url}/webui/sandbox/runs#k=${code}`);
  await heading(v.page, "Runs").waitFor();
  assert.equal(v.page.url(), `${v.place.url}/webui/sandbox/runs`, "the code left the address");
  assert.match((await token(v.page)) ?? "", /^u1\./);
  assert.deepEqual(await v.context.cookies(), []);
  await v.page.goBack();
  assert.equal(v.page.url(), `${v.place.url}/empty`, "the code is in no entry of the history");

  const other = await visit(t, { signedIn: false });
  other.allow(/401/);
  await other.page.goto(`${v.place.url}/webui/#k=${code}`);
  await heading(other.page, "Sign in to Belljar").waitFor();
  await other.page.getByRole("alert").waitFor();
  assert.equal(await token(other.page), null);
  const fresh = await v.api.loginLink();
  await other.page.evaluate((text) => { location.hash = text; }, `k=${fresh.code}`); // a link pasted into this page's address
  await heading(other.page, "New run").waitFor();
});

test("a link that comes while someone is signed in asks first", async (t) => {
  const v = await visit(t);
  const second = await v.tab();
  const name = `${v.user}-other`;
  const { secret } = await operator(t, v.place).tokens.create({ user_id: name, role: "user" });
  const codes = () => fetch(`${v.place.url}/api/v1/sandbox/login/codes`, { method: "POST", headers: { "X-API-Key": secret! } });
  const { code } = (await (await codes()).json()) as { code: string };
  const had = (await token(v.page))!;
  const question = v.page.getByRole("dialog", { name: "Sign in with this link?" });
  const who = (page: Page) => page.locator("header .who");
  await v.open("sandbox", second);
  await second.getByText("Command", { exact: true }).first().click();
  await second.getByRole("textbox", { name: "Command" }).fill("echo mine");
  await v.open("sandbox/runs");

  // As another site can do: in the open page, and in a new one.
  await v.page.evaluate((text) => { location.hash = text; }, `k=${code}`);
  await question.getByText(`You are signed in as ${v.user}.`).waitFor();
  await alsoAccessible(v.page, "sign-in-offered");
  assert.equal(v.page.url(), `${v.place.url}/webui/sandbox/runs`, "the code left the address");
  await v.page.keyboard.press("Enter");
  await question.waitFor({ state: "detached" });
  assert.equal(await token(v.page), had, "to stay is what comes first");
  await v.page.goto(`${v.place.url}/webui/sandbox/sessions#k=${code}`);
  await question.waitFor();
  assert.equal(await who(v.page).innerText(), v.user);
  assert.equal(await who(second).innerText(), v.user);

  v.allow(/401/);
  await question.getByRole("button", { name: "Sign in with the link" }).click();
  await question.waitFor({ state: "detached" });
  assert.equal(await who(v.page).innerText(), name);
  const answer = await fetch(`${v.place.url}/api/v1/sandbox/me`, { headers: { Authorization: `Bearer ${had}` } });
  assert.equal(answer.status, 401, "what was replaced has ended");
  await second.getByRole("alert").getByText("Another tab has signed in again").waitFor();
  await second.getByRole("button", { name: "Try again" }).click();
  await heading(second, "New run").waitFor();
  assert.equal(await who(second).innerText(), name);
  assert.ok(!(await kept(second)).includes("echo mine"), "what the other user was writing is gone");
});

test("a key signs in; a wrong one says so", async (t) => {
  const v = await visit(t, { signedIn: false });
  v.allow(/401/);
  await v.open("sandbox/runs");
  await heading(v.page, "Sign in to Belljar").waitFor();
  assert.equal(await v.page.getByRole("alert").count(), 0, "to be not signed in yet is no error");
  assert.equal(await v.page.getByRole("link", { name: "Runs" }).count(), 0);
  await accessible(v.page, "sign-in");
  await v.page.getByLabel("API key").fill("wrong-key-0123456789");
  await v.page.keyboard.press("Enter");
  await v.page.getByRole("alert").waitFor();
  await alsoAccessible(v.page, "sign-in-wrong");
  assert.equal(await v.page.getByRole("button", { name: "Try again" }).count(), 0, "the same key would be as wrong");
  await v.page.getByLabel("API key").fill(v.key);
  await v.page.keyboard.press("Enter");
  await heading(v.page, "Runs").waitFor();
  assert.ok(!(await token(v.page))!.includes(v.key), "the key itself is not kept");
});

test("signing out ends the token, here and in other tabs", async (t) => {
  const v = await visit(t);
  v.allow(/401/);
  const second = await v.tab();
  await v.open("sandbox/runs");
  await v.open("sandbox/sessions", second);
  const had = (await token(v.page))!;
  const { id } = await v.api.runs.start({ command: ["cat"], interactive: true, stdin_idle_timeout_sec: 300 });
  const log = await fetch(`${v.place.url}/api/v1/sandbox/runs/${id}/logs?follow=true`, { headers: { Authorization: `Bearer ${had}` } });
  await v.page.evaluate((id) => {
    sessionStorage.setItem("belljar.draft", "{}");
    sessionStorage.setItem(`belljar.spec.${id}`, "{}");
  }, id);
  await v.page.getByRole("button", { name: "Sign out" }).click();
  await heading(v.page, "Sign in to Belljar").waitFor();
  await heading(second, "Sign in to Belljar").waitFor();
  const answer = await fetch(`${v.place.url}/api/v1/sandbox/me`, { headers: { Authorization: `Bearer ${had}` } });
  assert.equal(answer.status, 401, "what was stolen before is useless");
  await until("nothing of the user's work is left", async () => (await kept(v.page)) === "{}");
  await assert.rejects(within("the stream's end", log.text()), TypeError, "what was open ends");
  await v.api.runs.cancel(id);

  // The other tab notices the new sign-in, too, and continues where it was.
  await v.page.getByLabel("API key").fill(v.key);
  await v.page.keyboard.press("Enter");
  await heading(v.page, "Runs").waitFor();
  await heading(second, "Sessions").waitFor();
});

test("a sign-out that the server does not confirm is reported until the next sign-in", async (t) => {
  const v = await visit(t);
  v.allow(/403/);
  await v.open("sandbox/runs");
  let answer = () => {};
  const held = new Promise<void>((resolve) => (answer = resolve));
  const refused = { status: 403, json: { error: { code: "forbidden", message: "no", details: {} } } };
  await v.page.route(/sandbox\/login$/, (route) => (route.request().method() === "DELETE" ? void held.then(() => route.fulfill(refused)) : route.fallback()));
  await v.page.getByRole("button", { name: "Sign out" }).click();
  await v.page.getByRole("button", { name: "Signing out …", disabled: true }).waitFor();
  answer();
  const told = v.page.getByRole("alert").getByText("This browser has forgotten the token");
  await told.waitFor();
  await v.page.getByLabel("API key").fill(v.key);
  await v.page.keyboard.press("Enter");
  await heading(v.page, "Runs").waitFor();
  assert.equal(await told.count(), 0);
});

test("a revoked token asks for a new sign-in, with the reason", async (t) => {
  const v = await visit(t);
  v.allow(/401/);
  await v.open("sandbox/runs");
  await heading(v.page, "Runs").waitFor();
  const admin = operator(t, v.place);
  for (const one of await admin.tokens.list()) if (one.user_id === v.user) await admin.tokens.revoke(one.id);
  await v.page.getByRole("link", { name: "Sessions" }).click();
  await heading(v.page, "Sign in to Belljar").waitFor();
  await v.page.getByRole("alert").waitFor();
  assert.equal(await token(v.page), null);
});

test("a token that ends before something is sent asks for a new sign-in, and what was written stays", soak, async (t) => {
  const v = await visit(t);
  v.allow(/401/);
  await v.open("sandbox");
  await v.page.getByText("Command", { exact: true }).first().click();
  await v.page.getByRole("textbox", { name: "Command" }).fill("echo kept");
  const admin = operator(t, v.place);
  for (const one of await admin.tokens.list()) if (one.user_id === v.user && one.prefix.startsWith("u1.")) await admin.tokens.revoke(one.id);
  await v.page.getByRole("button", { name: /^Run/ }).click();
  await heading(v.page, "Sign in to Belljar").waitFor();
  await v.page.getByRole("alert").waitFor();
  await v.page.getByLabel("API key").fill(v.key);
  await v.page.keyboard.press("Enter");
  await heading(v.page, "New run").waitFor();
  assert.equal(await v.page.getByRole("textbox", { name: "Command" }).inputValue(), "echo kept");
});

test("a token of an earlier visit that has ended asks for a new sign-in", async (t) => {
  const v = await visit(t, { signedIn: false });
  v.allow(/401/);
  const old = await login(v.place, v.key);
  const ended = await fetch(`${v.place.url}/api/v1/sandbox/login`, { method: "DELETE", headers: { Authorization: `Bearer ${old}` } });
  assert.ok(ended.ok);
  await v.open("sandbox");
  await v.page.evaluate((text) => localStorage.setItem("belljar.token", text), old);
  await v.page.reload();
  await heading(v.page, "Sign in to Belljar").waitFor();
  await v.page.getByRole("alert").waitFor();
  await until("the token is forgotten", async () => (await token(v.page)) === null);
});
