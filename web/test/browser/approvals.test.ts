import assert from "node:assert/strict";
import { before, test } from "node:test";
import { shown } from "../../src/format.ts";
import { soak } from "./tier.ts";
import { accessible, alsoAccessible, atEnd, operator, serve, until, visit, type Owner, type Place, type Server, type Visit } from "./world.ts";

let server: Server;
const ends: (() => unknown)[] = [];
before(async () => {
  server = await serve({ after: (end) => ends.push(end) }, { set: ["approval=timeout_sec>30"] });
});
test.after(async () => {
  for (const end of ends) await end();
});

/** asked starts a run of another user that needs an approval. */
async function asked(t: Owner, place: Place, command: string[], user?: string): Promise<{ user: string; v: Visit; id: string }> {
  const v = await visit(t, { place, ...(user && { user }) });
  const { id } = await v.api.runs.start({ command, timeout_sec: 120 });
  atEnd(t, () => v.api.runs.cancel(id).catch(() => {}));
  return { user: shown(v.user), v, id };
}

test("a run that waits is approved, another denied with a note", async (t) => {
  const boss = await visit(t, { place: server, role: "admin" });
  const good = await asked(t, server, ["echo", "approved & done"]);
  const bad = await asked(t, server, ["sh", "-c", `echo '<img src=x onerror=alert(1)>\u202e'${"\n".repeat(22)}echo end`, "x".repeat(17_000)], "odd\u202e<b>user");
  await boss.open("sandbox/approvals");
  const card = (user: string) => boss.page.getByRole("article").filter({ hasText: user });
  await card(good.user).waitFor();
  const text = await card(good.user).innerText();
  assert.match(text, /wants to run a program[\s\S]*It may run for 120 s; more than 30 s needs an approval[\s\S]*echo 'approved & done'/);
  assert.match(text, /expires in \d+/);
  assert.doesNotMatch(text, /16 KiB/);
  await card(bad.user).getByText("It goes on: 13 more lines.").waitFor();
  const shownUsers = (await boss.page.getByRole("article").allInnerTexts()).map((text) => [good.user, bad.user].findIndex((user) => text.includes(user)));
  assert.deepEqual(shownUsers.filter((at) => at >= 0), [0, 1], "one that comes moves none that was there");
  await accessible(boss.page, "approvals");
  assert.ok(!(await card(bad.user).innerText()).includes("echo end"));
  await card(bad.user).getByRole("button", { name: "Show all of it" }).click();
  await card(bad.user).getByText("echo end").waitFor();
  await card(bad.user).getByText("The server keeps 16 KiB of a command.").waitFor();

  await card(good.user).getByRole("button", { name: "Approve" }).click();
  await card(good.user).waitFor({ state: "detached" });
  assert.equal((await good.v.api.runs.wait(good.id)).phase, "completed");

  const note = card(bad.user).getByLabel(`Note for ${bad.user}`);
  assert.equal(await note.getAttribute("placeholder"), "A note for odd⟨202E⟩<b>user (optional)");
  await note.fill("not today");
  await card(bad.user).getByRole("button", { name: "Deny" }).click();
  await card(bad.user).waitFor({ state: "detached" });
  await until("the denied run has ended", async () => (await bad.v.api.runs.get(bad.id)).phase === "failed");
  const denied = boss.page.getByRole("listitem").filter({ hasText: bad.user });
  await denied.waitFor();
  assert.match(await denied.innerText(), new RegExp(`denied[\\s\\S]*onerror.*⟨202E⟩[\\s\\S]*by ${boss.user}[\\s\\S]*not today`));
  await boss.page.getByRole("heading", { name: "Nothing waits for you" }).waitFor();
  await alsoAccessible(boss.page, "approvals-decided");

  // So many requests are pending that they fill the first page of the list.
  await boss.page.route(/admin\/approvals\?(?!state)/, (route) => route.fulfill({ json: { items: [], total: 60, limit: 50, offset: 0, has_more: true } }));
  await boss.page.reload();
  await boss.page.getByText("The newest wait.").waitFor();
  await boss.page.getByRole("button", { name: "Next", exact: true }).waitFor();
});

test("of more waiting requests than the page shows, it shows the oldest", async (t) => {
  const boss = await visit(t, { place: server, role: "admin" });
  const one = await asked(t, server, ["true"]);
  const [real] = (await boss.api.admin.approvals({ state: "pending" })).items.filter(({ id }) => id === one.id);
  const waiting = Array.from({ length: 230 }, (_, n) => ({ ...real!, id: `${real!.id.slice(0, -3)}${String(n).padStart(3, "0")}`, user_id: `waiter-${n}` })); // the newest first
  await boss.page.route(/admin\/approvals\?.*state=pending/, (route) => {
    const { searchParams } = new URL(route.request().url());
    const [offset, limit] = [Number(searchParams.get("offset") ?? 0), Number(searchParams.get("limit") ?? 50)];
    const items = waiting.slice(offset, offset + limit);
    return route.fulfill({ json: { items, total: waiting.length, limit, offset, has_more: offset + items.length < waiting.length } });
  });
  await boss.open("sandbox/approvals");
  await boss.page.getByRole("heading", { name: "Waiting (230)" }).waitFor();
  const users = (await boss.page.getByRole("article").allInnerTexts()).map((text) => /waiter-\d+/.exec(text)?.[0]);
  assert.deepEqual([users.length, users[0], users.at(-1)], [200, "waiter-229", "waiter-30"]);
  await boss.page.getByText("Not shown yet: 30 newer requests.").waitFor();
});

test("the page shows that another operator decided first", soak, async (t) => {
  const boss = await visit(t, { place: server, role: "admin" });
  boss.allow(/409/);
  const one = await asked(t, server, ["true"]);
  await boss.open("sandbox/approvals");
  const card = boss.page.getByRole("article").filter({ hasText: one.user });
  await card.waitFor();
  // The page gets no update before its own decision.
  await boss.page.route(/admin\/approvals\?state=pending/, () => {});
  const other = await visit(t, { place: server, role: "admin" });
  await other.api.admin.decide(one.id, { decision: "deny" });
  await card.getByRole("button", { name: "Approve" }).click();
  const alert = boss.page.getByRole("alert");
  await alert.waitFor();
  assert.match(await alert.innerText(), new RegExp(`was decided before you: ${other.user} denied it. Your decision had no effect.`));
  await accessible(boss.page, "approvals-late");
});

test("a request whose approval fails still waits, with the reason", async (t) => {
  const boss = await visit(t, { place: server, role: "admin" });
  boss.allow(/409/);
  const one = await asked(t, server, ["true"]);
  await boss.open("sandbox/approvals");
  const card = boss.page.getByRole("article").filter({ hasText: one.user });
  await card.waitFor();
  const decision = /admin\/approvals\/[^?]+$/;
  await boss.page.route(decision, (route) => route.fulfill({ status: 409, json: { error: { code: "conflict", message: 'volume "data" is in use' } } }));
  await card.getByRole("button", { name: "Approve" }).click();
  await boss.page.getByRole("alert").waitFor();
  assert.match((await card.getByRole("alert").allInnerTexts()).join(), /volume "data" is in use/i);
  await boss.page.unroute(decision);
  await card.getByRole("button", { name: "Approve" }).click();
  await card.waitFor({ state: "detached" });
  assert.equal((await one.v.api.runs.wait(one.id)).phase, "completed");
});

test("a run in a session has the network of its session", async (t) => {
  const boss = await visit(t, { place: server, role: "admin" });
  const v = await visit(t, { place: server });
  await using session = await v.api.sessions.create({ base_image: "host", timeout_sec: 20 });
  const { id } = await v.api.runs.start({ session_id: session.id, command: ["true"], timeout_sec: 120 });
  atEnd(t, () => v.api.runs.cancel(id).catch(() => {}));
  await boss.open("sandbox/approvals");
  const card = boss.page.getByRole("article").filter({ hasText: shown(v.user) });
  await card.waitFor();
  const text = await card.innerText();
  assert.match(text, /wants to run a program in a session[\s\S]*Network\s+that of its session/);
  assert.ok((await card.getByRole("link", { name: "that of its session" }).getAttribute("href"))?.endsWith(`/sessions/${session.id}`));
});

test("an operator whose clock is wrong decides, too", soak, async (t) => {
  const boss = await visit(t, { place: server, role: "admin" });
  await boss.inject(() => {
    const now = Date.now.bind(Date);
    Date.now = () => now() + 48 * 3_600_000;
  });
  const one = await asked(t, server, ["true"]);
  await boss.open("sandbox/approvals");
  const card = boss.page.getByRole("article").filter({ hasText: one.user });
  await card.getByText(/^expires in \d+ min/).waitFor();
  await card.getByText(/^(just now|\d+ s ago|in 1 s) · look at it$/).waitFor();
  await card.getByRole("button", { name: "Approve" }).click();
  await card.waitFor({ state: "detached" });
  assert.equal((await one.v.api.runs.wait(one.id)).phase, "completed");
});

test("users see that the page is for operators", async (t) => {
  const v = await visit(t, { place: server, user: "a\u202euser" });
  await v.open("sandbox/approvals");
  await v.page.getByText("You are signed in as a⟨202E⟩user").waitFor();
  await v.page.getByRole("banner").getByText("a⟨202E⟩user").waitFor();
  await v.page.getByRole("heading", { name: "This page is for operators" }).waitFor();
  await alsoAccessible(v.page, "operators");
  assert.equal(await v.page.getByRole("link", { name: "Approvals" }).count(), 0);
  await assert.rejects(operator(t, { ...server, apiKey: v.key }).admin.approvals());
});
