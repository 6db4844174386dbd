// The page of a run, against a real server.
import assert from "node:assert/strict";
import { test } from "node:test";
import { soak } from "./tier.ts";
import { accessible, alsoAccessible, atEnd, operator, serve, visit } from "./world.ts";

const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

test("a run that failed says so in one sentence, and shows what it left", async (t) => {
  const v = await visit(t);
  const { page } = v;
  const { id } = await v.api.run({
    language: "python", capture_patterns: ["*"], labels: { for: "test" },
    code: `import base64
open("plot.png", "wb").write(base64.b64decode("${png}"))
open("cut.png", "wb").write(base64.b64decode("${png}")[:40])
open("fake.png", "w").write("<svg onload=alert(1)>")
open("evil.svg", "w").write('<svg xmlns="http://www.w3.org/2000/svg" width="20" height="10"><script>document.title=1</script><image href="http://evil.example/x"/><rect width="20" height="10"/></svg>')
open("page.html", "w").write("<script>document.title=2</script><h1>not a heading</h1>\\u202e")
open("table.csv", "w").write("name,amount\\n<b>one</b>\\u202e,1\\n\\"two, and\\",=2+2\\n")
open("tree.json", "w").write('{"list": [{"deep": {"er": 1}}, 2], "id": 12345678901234567890, "part": 1.0, "text": "<i>x</i>\\u202e"}')
open("<img src=x onerror=alert(1)>.txt", "w").write("odd name")
print("done")
def load(name):
    raise ValueError("<img src=x onerror=alert(1)> " + name)
load("long " * 100 + "x" * 300)`,
  });
  await v.open(`sandbox/runs/${id}`);
  await page.getByRole("heading", { level: 1, name: /^Failed after .*: exit status 1$/ }).waitFor();
  await page.locator(".log").getByText("done").waitFor();

  const failure = page.getByRole("region", { name: "What its output says" });
  await failure.getByText(/^ValueError: <img src=x onerror=alert\(1\)> (long )+x{300}$/).waitFor();
  assert.deepEqual(await failure.getByRole("listitem").allInnerTexts(), (await v.api.runs.get(id)).failure!.frames.map((f) => `${f.file}:${f.line}${f.line === 12 ? " in load" : ""}`));
  assert.equal(await failure.getByRole("listitem").count(), 2);
  assert.equal(await failure.locator("a, img").count(), 0); // there is no session with its files

  const left = page.getByRole("region", { name: "Artifacts" });
  const loaded = (name: string) => page.waitForFunction((alt) => [...document.images].some((i) => i.alt === alt && i.complete && i.naturalWidth > 0), name);
  await loaded("plot.png");
  await loaded("evil.svg");
  assert.deepEqual(await left.locator("img").evaluateAll((all) => all.map((e) => (e as HTMLImageElement).src.split(":")[0])), ["blob", "blob"]);
  await left.getByText("not the picture that its name says").waitFor();
  await left.getByText("The browser cannot show this picture").waitFor();
  await left.getByRole("button", { name: "page.html", expanded: false }).click();
  await left.locator("pre").filter({ hasText: "<script>document.title=2</script><h1>not a heading</h1>⟨202E⟩" }).waitFor();
  await left.getByRole("button", { name: "table.csv", expanded: false }).click();
  await left.getByRole("cell", { name: "<b>one</b>⟨202E⟩" }).waitFor();
  await left.getByRole("cell", { name: "two, and" }).waitFor();
  await left.getByRole("button", { name: "tree.json", expanded: false }).click();
  await left.getByText('"<i>x</i>⟨202E⟩"').waitFor();
  await left.getByText("id: 12345678901234567890").waitFor();
  await left.getByText("part: 1.0").waitFor();
  await left.getByText("[2 items]").click();
  await left.getByText('{"deep"').or(left.getByText("{1 key}")).first().waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), left.getByRole("button", { name: "Download table.csv" }).click()]);
  assert.equal(download.suggestedFilename(), "table.csv");
  assert.equal(await page.title(), `Run …${id.slice(-8)} · Belljar`);

  const usage = page.getByRole("region", { name: "Usage" });
  await usage.getByRole("meter", { name: "Memory, at most" }).waitFor();
  await page.locator("summary", { hasText: "Details" }).click();
  await page.getByText("nonzero_exit").waitFor();
  await accessible(page, "run-failed");
});

test("artifacts whose names no address can have are listed with the others", async (t) => {
  const v = await visit(t);
  const { id } = await v.api.run({
    language: "python", capture_patterns: ["*.txt"],
    code: `for name in (b"bad-\\xff.txt", b"bad-\\xfe.txt", b"two\\nlines.txt", b"good.txt"): open(name, "w").write("x")`,
  });
  await v.open(`sandbox/runs/${id}`);
  const left = v.page.getByRole("region", { name: "Artifacts" });
  await left.getByRole("button", { name: "Download good.txt" }).waitFor();
  assert.equal(await left.getByText("name not utf8").count(), 2);
  const odd = left.getByRole("listitem").filter({ hasText: "two⟨000A⟩lines.txt" });
  await odd.getByText("An address cannot have this name.").waitFor();
  assert.equal(await odd.getByRole("button").count(), 0);
});

test("the same request can be copied in three forms, and sent again", async (t) => {
  const v = await visit(t);
  const { page } = v;
  const spec = { language: "python", code: "print('it''s')", base_image: "host", env: { NAME: "a b" } };
  const { id } = await v.api.run(spec);
  await v.open(`sandbox/runs/${id}`);
  const again = page.getByRole("region", { name: "Run the same elsewhere" });
  await again.getByText("A run does not keep").waitFor();
  // As the page for new runs stores it.
  await page.evaluate(([id, text]) => sessionStorage.setItem(`belljar.spec.${id}`, text!), [id, JSON.stringify(spec)]);
  await page.reload();
  const text = again.locator("pre");
  await text.filter({ hasText: "belljar run --env 'NAME=a b' --lang py --code" }).waitFor();
  assert.equal(await again.getByText("A run does not keep").count(), 0);
  await again.getByRole("button", { name: "JSON" }).click();
  assert.deepEqual(JSON.parse(await text.innerText()), { ...spec, spec_version: "1.1" });
  await again.getByRole("button", { name: "curl" }).click();
  assert.match(await text.innerText(), /^curl .*\/api\/v1\/sandbox\/runs/);
  await v.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await again.getByRole("button", { name: "Copy" }).click();
  await again.getByRole("button", { name: "Copied" }).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), await text.innerText());
  // Without https, pages have no clipboard.
  await again.getByRole("button", { name: "JSON" }).click();
  await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: undefined, configurable: true }));
  await again.getByRole("button", { name: /^(Copy|Copied)$/ }).click();
  await page.evaluate(() => Reflect.deleteProperty(navigator, "clipboard"));
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), await text.innerText());
  assert.equal(await page.getByRole("link", { name: "Run again" }).getAttribute("href"), `/webui/sandbox?from=${id}`);
});

test("five windows with running programs leave a connection for the sixth request", async (t) => {
  const v = await visit(t);
  const code = "import time\nprint('begun', flush=True)\ntime.sleep(600)";
  const ids: string[] = [];
  for (let n = 0; n < 5; n++) {
    const { id } = await v.api.runs.start({ language: "python", code });
    ids.push(id);
    atEnd(t, () => v.api.runs.cancel(id).catch(() => {}));
    const page = n === 0 ? v.page : await v.tab();
    await v.open(`sandbox/runs/${id}`, page);
    await page.locator(".log").getByText("begun").waitFor();
  }
  for (const page of v.context.pages()) await page.getByRole("region", { name: "Usage" }).locator("path.line").first().waitFor({ state: "attached" });
  const last = v.context.pages().at(-1)!;
  await last.getByRole("button", { name: "Cancel" }).click();
  await last.getByRole("heading", { name: /^Cancelled/ }).waitFor();
});

test("a program that asks gets lines, and is cancelled", async (t) => {
  const v = await visit(t);
  const { page } = v;
  const { id } = await v.api.runs.start({ language: "python", interactive: true, stdin_idle_timeout_sec: 300, code: "while True: print('got', input(), flush=True)" });
  await v.open(`sandbox/runs/${id}`);
  await page.getByRole("heading", { name: /^Running for/ }).waitFor();
  const usage = page.getByRole("region", { name: "Usage" });
  await usage.getByText("Memory").waitFor();
  await usage.locator("path.line").first().waitFor({ state: "attached" }); // two samples make a line
  let admit = () => {};
  const admitted = new Promise<void>((resolve) => (admit = resolve));
  await page.route(/sandbox\/tickets/, (route) => void admitted.then(() => route.continue()), { times: 1 });
  await page.getByLabel("Input", { exact: true }).fill("<b>one</b>");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Send", disabled: true }).waitFor();
  await page.getByLabel("Input", { exact: true }).fill("two"); // while the line before it is on its way
  admit();
  await page.locator(".log").getByText("got <b>one</b>").waitFor();
  await page.getByRole("button", { name: "Send", disabled: false }).waitFor();
  assert.equal(await page.getByLabel("Input", { exact: true }).inputValue(), "two");
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator(".log").getByText("got two").waitFor();
  await page.setViewportSize({ width: 390, height: 800 });
  assert.ok((await page.getByLabel("Input", { exact: true }).boundingBox())!.width >= 200, "a line has room on a phone");
  await page.getByLabel("Input", { exact: true }).press("ArrowUp");
  await page.getByLabel("Input", { exact: true }).press("ArrowUp");
  assert.equal(await page.getByLabel("Input", { exact: true }).inputValue(), "<b>one</b>");
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("heading", { name: /^Cancelled after/ }).waitFor();
  assert.equal((await v.api.runs.get(id)).phase, "killed");
});

test("what waits says for what", soak, async (t) => {
  const place = await serve(t, { set: ["approval=timeout_sec>600"] });
  const v = await visit(t, { place });
  const { page } = v;
  const { id } = await v.api.runs.start({ command: ["echo", "approved"], timeout_sec: 700 });
  await v.open(`sandbox/runs/${id}`);
  await page.getByRole("heading", { name: "Waits for an operator's approval" }).waitFor();
  await page.getByText("It may run for 700 s; more than 600 s needs an approval").waitFor();
  await accessible(page, "run-approval");
  await operator(t, place).admin.decide(id, { decision: "approve", note: "go on" });
  await page.getByRole("heading", { name: /^Completed/ }).waitFor();
  await page.getByText("go on").waitFor();
  await page.locator(".log .text", { hasText: /^approved$/ }).waitFor();
});

test("a host that was denied is explained", async (t) => {
  const place = await serve(t, { set: ["egress_allow=api.example.com"] });
  const v = await visit(t, { place });
  const { page } = v;
  const { id } = await v.api.run({
    language: "python", network_policy: "allowlist", egress: { hosts: ["api.example.com"] },
    code: "import socket\ntry: socket.getaddrinfo('denied.example.org', 443)\nexcept OSError as e: print(e)",
  });
  await v.open(`sandbox/runs/${id}`);
  const network = page.getByRole("region", { name: "Network" });
  await network.getByText("denied.example.org").waitFor();
  await network.getByText("No rule of the request covers the host").waitFor();
  await network.getByText("Add a rule").waitFor();
  await page.locator(".log").getByText(/Network: denied.example.org.* was denied \(no_match\)/).waitFor();
  await accessible(page, "run-denied");
});

test("what does not exist, or is another's, is the same", async (t) => {
  const v = await visit(t);
  v.allow(/404/);
  const other = await visit(t);
  const { id } = await other.api.run(["true"]);
  for (const one of [id, "01a21905-939d-7c61-8e52-f73e29a7199b", "no \u202eid"]) {
    await v.page.goto(`${v.place.url}/webui/sandbox/runs/${encodeURIComponent(one)}`);
    await v.page.getByText("No such run, or not yours").waitFor();
    await v.page.getByText(one.replace("\u202e", "⟨202E⟩"), { exact: true }).waitFor();
  }
  await alsoAccessible(v.page, "run-unknown");
  await v.page.getByRole("button", { name: "Sign in as someone else" }).click();
  await v.page.getByRole("heading", { name: "Sign in to Belljar" }).waitFor();
});
