import assert from "node:assert/strict";
import { test } from "node:test";
import { soak } from "./tier.ts";
import { accessible, alsoAccessible, operator, serve, visit } from "./world.ts";

test("the node's page shows each protection, and the caller's allowance", async (t) => {
  const v = await visit(t);
  await v.open("sandbox/node");
  const { runtimes } = await v.api.runtimes();
  assert.ok(runtimes.some((runtime) => runtime.available && runtime.protections?.length), JSON.stringify(runtimes));
  for (const runtime of runtimes) {
    const card = v.page.getByRole("article", { name: `Runtime ${runtime.name}` });
    await card.waitFor();
    if (!(await card.locator("details").evaluateAll((all) => all.every((one) => (one as HTMLDetailsElement).open)))) await card.locator("summary").click();
    const text = await card.innerText();
    const has = (said: string | undefined) => !said || text.toLowerCase().includes(said.toLowerCase());
    assert.match(text, runtime.available ? /works here/ : /not available/);
    for (const reason of runtime.reasons ?? []) assert.ok(has(reason.hint), `${runtime.name}: ${reason.hint}`);
    for (const one of runtime.protections ?? []) {
      for (const said of [one.by, one.weaker, one.hint]) assert.ok(has(said), `${runtime.name}: ${one.name}: ${said}`);
    }
  }
  await v.page.getByText("this server's own programs").waitFor();
  assert.equal(await v.page.getByRole("button", { name: "Remove unused" }).count(), 0, "for operators");
  await v.page.getByRole("meter", { name: "Artifacts" }).waitFor();
  const { policy_hash } = await v.api.me();
  await v.page.getByText(policy_hash.slice(0, 12)).first().click();
  await v.page.getByText(policy_hash, { exact: true }).waitFor();
  await accessible(v.page, "node");
});

/** tarOf returns a tar archive of one file: a root file system to import as an image. */
function tarOf(name: string, content: string): Buffer {
  const header = Buffer.alloc(512);
  const size = Buffer.byteLength(content);
  header.write(name, 0);
  for (const [value, at, length] of [[0o755, 100, 8], [0, 108, 8], [0, 116, 8], [size, 124, 12], [0, 136, 12]] as const) header.write(`${value.toString(8).padStart(length - 1, "0")}\0`, at);
  header.write("        0", 148);
  header.write("ustar\u000000", 257);
  header.write(`${header.reduce((sum, byte) => sum + byte, 0).toString(8).padStart(6, "0")}\0 `, 148);
  return Buffer.concat([header, Buffer.from(content.padEnd(Math.ceil(size / 512) * 512, "\0")), Buffer.alloc(1024)]);
}

test("operators import, name, remove and prune images", async (t) => {
  const place = await serve(t);
  const v = await visit(t, { place, role: "admin" });
  const { page } = v;
  const admin = operator(t, place);
  await v.open("sandbox/node");
  await page.getByRole("button", { name: "Pull or import" }).click();
  let dialog = page.getByRole("dialog");
  await dialog.getByLabel("From a file").check();
  await dialog.locator("input[type=file]").setInputFiles({ name: "root.tar", mimeType: "application/x-tar", buffer: tarOf("bin/tool", "#!/bin/sh\n") });
  v.allow(/400/);
  await dialog.getByRole("button", { name: "Import" }).click();
  await dialog.getByText("Give it one with name.", { exact: false }).waitFor();
  assert.doesNotMatch(await dialog.innerText(), /--/, "the page has no flags");
  await dialog.getByLabel("Name").fill("team/tool:1");
  await alsoAccessible(page, "node-import");
  await dialog.getByRole("button", { name: "Import" }).click();
  await dialog.getByText("is ready").waitFor();
  await dialog.getByRole("button", { name: "Close", exact: true }).last().click();
  const item = page.getByRole("listitem").filter({ hasText: "team/tool:1" });
  await item.waitFor();

  await item.getByRole("button", { name: "Add a name" }).click();
  dialog = page.getByRole("dialog");
  v.allow(/400/);
  await dialog.getByRole("textbox").fill("Not A Name!");
  await dialog.getByRole("button", { name: "Add", exact: true }).click();
  await dialog.locator("[aria-invalid=true], [role=alert]").first().waitFor();
  await dialog.getByRole("textbox").fill("team/tool:2");
  await dialog.getByRole("button", { name: "Add", exact: true }).click();
  await item.getByText("team/tool:2").waitFor();
  await accessible(page, "node-images");

  await item.getByRole("button", { name: /Remove .*tool:2/ }).click();
  await page.getByRole("dialog").getByText("keeps its other names").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Remove", exact: true }).click();
  await item.getByText("team/tool:2").waitFor({ state: "detached" });
  assert.equal((await admin.images.list()).flatMap((one) => one.names).filter((name) => name?.includes("tool")).length, 1);

  await page.getByRole("button", { name: "Remove unused" }).click();
  dialog = page.getByRole("dialog");
  await dialog.getByRole("combobox").selectOption({ label: "any time: all that are not in use now" });
  await dialog.getByRole("button", { name: "Remove", exact: true }).click();
  await dialog.getByText(/1 image removed/).waitFor();
  await dialog.getByRole("button", { name: "Close", exact: true }).last().click();
  await item.waitFor({ state: "detached" });

  // This server pulls no images, and reports that.
  v.allow(/40[034]|409|422/);
  await page.getByRole("button", { name: "Pull or import" }).click();
  await page.getByRole("dialog").getByLabel("Image").fill("127.0.0.1:9/nothing:1");
  await page.getByRole("dialog").getByRole("button", { name: "Pull", exact: true }).click();
  await page.getByRole("dialog").locator("[aria-invalid=true], [role=alert]").first().waitFor();
});

test("a pull shows how far it has come", soak, async (t) => {
  const v = await visit(t, { role: "admin" });
  const event = (name: string, data: unknown) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
  await v.page.route(/images\/pull/, (route) => route.fulfill({
    contentType: "text/event-stream",
    body: event("progress", { phase: "pulling", layer: "sha256:a", done: 512, total: 2048 }) + event("progress", { phase: "pulling", layer: "sha256:b", done: 0, total: 2048 })
      + event("done", { ref: "docker.io/library/tiny:1", digest: "sha256:c", bytes: 4096, names: [], layers: 2, source: "pull", platform: "linux/amd64", runtime: "", config: {} }),
  }));
  await v.open("sandbox/node");
  await v.page.getByRole("button", { name: "Pull or import" }).click();
  await v.page.getByRole("dialog").getByLabel("Image").fill("tiny:1");
  await v.page.keyboard.press("Enter");
  await v.page.getByText("docker.io/library/tiny:1 is ready, 4 KiB").waitFor();
});
