// Notebooks in the page of a session.
import assert from "node:assert/strict";
import { test } from "node:test";
import { soak } from "./tier.ts";
import { accessible, visit } from "./world.ts";

const plot = `import struct, zlib
class Plot:
    def _repr_png_(self):
        part = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        rows = b"".join(b"\\0" + b"".join(bytes([20, 107, 102] if (x * x) // 160 == 60 - y else [255, 255, 255]) for x in range(96)) for y in range(64))
        return b"\\x89PNG\\r\\n\\x1a\\n" + part(b"IHDR", struct.pack(">2I5B", 96, 64, 8, 2, 0, 0, 0)) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")
    def __repr__(self): return "<Plot of x²>"
x = 41
print("drawn")
Plot()`;

const hostile = `table = {"schema": {"fields": [{"name": "<i>name</i>"}, {"name": "n"}]}, "data": [{"<i>name</i>": "<script>", "n": 9007199254740993}], "total_rows": 70}
display({"application/vnd.dataresource+json": table, "text/plain": "a table", "text/html": "<table>"}, raw=True)
display({"image/svg+xml": "<svg xmlns='http://www.w3.org/2000/svg' width='40' height='20'><script>parent.document.title='owned'</script><rect width='40' height='20' fill='teal'/></svg>"}, raw=True)
display({"text/html": "<img src=x onerror=alert(1)>"}, raw=True)
display({"image/png": "PHNjcmlwdD4=", "text/plain": "no picture"}, raw=True)
display({"image/svg+xml": "<svg xmlns='http://www.w3.org/2000/svg'"}, raw=True)
{"list": list(range(50))}`;

test("a notebook: a plot, a table, hostile output, an interrupt, a restart, and a file that Jupyter reads", async (t) => {
  const v = await visit(t, { height: 1000 });
  const { page } = v;
  page.on("dialog", () => assert.fail("a dialog opened"));
  const session = await v.api.sessions.create({ base_image: "host" });
  await v.open(`sandbox/sessions/${session.id}`);
  await page.getByRole("button", { name: "New notebook" }).click();
  const cell = (n: number) => page.getByRole("region", { name: `Cell ${n}`, exact: true });
  const type = async (n: number, code: string, key = "Shift+Enter") => {
    await cell(n).locator(".cm-content").click();
    await page.keyboard.insertText(code);
    await page.keyboard.press(key);
  };

  // A new notebook has the focus.
  await page.waitForFunction(() => document.activeElement?.closest(".cell"));
  await page.keyboard.insertText(plot);
  await page.keyboard.press("Shift+Enter");
  const picture = cell(1).locator("img");
  await picture.waitFor();
  const drawn = await picture.evaluate(async (img: HTMLImageElement) => {
    await img.decode();
    return [img.naturalWidth, img.alt, img.src.slice(0, 5)];
  });
  assert.deepEqual(drawn, [96, "<Plot of x²>", "blob:"]);
  await cell(1).getByText("drawn", { exact: true }).waitFor();
  await cell(1).getByText("[1]").waitFor();
  // The next cell has the focus.
  await page.keyboard.insertText("x + 1");
  await page.keyboard.press("Shift+Enter");
  await cell(2).locator("pre").getByText("42", { exact: true }).waitFor();

  await type(3, hostile);
  await cell(3).getByRole("columnheader", { name: "<i>name</i>" }).waitFor();
  await cell(3).getByText("1 of 70 rows").waitFor();
  await cell(3).getByRole("cell", { name: "9007199254740993", exact: true }).waitFor(); // JavaScript's numbers do not have this precision
  await cell(3).locator("pre").getByText("<img src=x onerror=alert(1)>").waitFor();
  await cell(3).locator("pre").getByText("no picture").waitFor();
  await cell(3).getByText("The browser cannot show this picture").waitFor();
  await cell(3).getByText("[50 items]").waitFor();
  await cell(3).getByRole("button", { name: "Text" }).first().click();
  await cell(3).locator("pre").getByText("a table", { exact: true }).waitFor();
  assert.deepEqual(await page.locator(".outputs").locator("script, iframe, object, i, svg, img:not([src^='blob:'])").count(), 0);
  assert.doesNotMatch(await page.title(), /owned/);
  await page.getByText("● not saved").waitFor({ state: "detached" });

  await type(4, "def deep(): 1/0\ndeep()");
  await cell(4).getByText("ZeroDivisionError").first().waitFor();
  await page.getByText("Executing …").waitFor({ state: "detached" });
  assert.equal(await cell(4).locator("pre").count(), 1, "the traceback is there once");
  await accessible(page, "notebook");

  // A cell that requests input gets lines, one of them hidden.
  await type(5, "import getpass\ninput('Name? ') + getpass.getpass('Word? ')[::-1]", "Control+Enter");
  await cell(5).getByLabel("Name?").fill("Ada");
  await page.keyboard.press("Enter");
  const word = cell(5).getByLabel("Word?");
  await word.waitFor();
  assert.equal(await word.getAttribute("type"), "password");
  await word.fill("abc");
  await page.keyboard.press("Enter");
  await cell(5).locator("pre").getByText("'Adacba'").waitFor();
  await word.waitFor({ state: "detached" });
  await cell(5).locator(".cm-content").click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");

  // An interrupt keeps the variables, and drops the queue; a restart does not keep them.
  await type(5, "import time\nprint('endless')\nwhile True: time.sleep(0.01)");
  await type(6, "x");
  await cell(5).getByText("endless", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Interrupt" }).click();
  await cell(5).getByText("KeyboardInterrupt").first().waitFor();
  assert.equal(await cell(6).locator(".outputs").count(), 0);
  await page.getByRole("button", { name: "Run cell 6" }).click();
  await cell(6).locator("pre").getByText("41", { exact: true }).waitFor();
  // So does an interrupt while the cell is being sent.
  let send = () => {};
  const interrupted = new Promise<void>((resolve) => (send = resolve));
  await page.route(/\/runs\?/, (route) => void interrupted.then(() => route.continue()), { times: 1 });
  const sending = page.waitForRequest((one) => one.method() === "POST" && /\/runs\?/.test(one.url()));
  await page.getByRole("button", { name: "Run cell 5" }).click();
  await sending;
  await page.getByRole("button", { name: "Interrupt" }).click();
  send();
  await page.getByText("Executing …").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Restart" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Restart" }).click();
  await page.getByText("The interpreter was started again.").waitFor();
  await page.getByRole("button", { name: "Run cell 6" }).click();
  await cell(6).getByText("NameError").first().waitFor();
  await page.getByText("Executing …").waitFor({ state: "detached" }); // until then the traceback is shown twice
  // So does a hibernation without the processes. It would abort a save in progress, and may abort the page's next request.
  await page.getByText("● not saved").waitFor({ state: "detached" });
  v.allow(/status of 409 .*\/fs\//);
  // If the page loads the session meanwhile, it shows the hibernation instead of the notebook.
  let look = () => {};
  const awake = new Promise<void>((resolve) => (look = resolve));
  await page.route((url) => url.pathname.endsWith(`/sessions/${session.id}`), (route) => void awake.then(() => route.continue()));
  await session.hibernate({ force: true });
  await page.getByRole("button", { name: "Run cell 6" }).click();
  await page.getByText("The variables were lost while the session hibernated.").waitFor();
  look();
  await page.getByText("Executing …").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Delete cell 5" }).click();
  await page.keyboard.press("Control+s");
  await page.getByText("● not saved").waitFor({ state: "detached" });

  // The file has Jupyter's format, and contains the outputs after a reload.
  type File = { nbformat: number; nbformat_minor: number; metadata: { kernelspec: object }; cells: { cell_type: string; id: string; source: string[]; outputs: Record<string, unknown>[] }[] };
  const text = await session.files.text("notebook.ipynb");
  assert.match(text, /9007199254740993/);
  const file = JSON.parse(text) as File;
  assert.deepEqual([file.nbformat, file.nbformat_minor, file.metadata.kernelspec], [4, 5, { display_name: "Python", language: "python", name: "python3" }]);
  assert.deepEqual(file.cells.map((one) => one.outputs.map((output) => output["output_type"])), [
    ["stream", "execute_result"], ["execute_result"], ["display_data", "display_data", "display_data", "display_data", "display_data", "execute_result"], ["error"], ["error"], [],
  ]);
  await page.reload();
  await picture.waitFor();
  await cell(2).locator("pre").getByText("42", { exact: true }).waitFor();

  // The page of a cell's run shows its results, and how to execute it again.
  const shown = (await v.api.runs.list({ sessionId: session.id })).items.find((one) => one.command?.[0] === hostile)!;
  await v.open(`sandbox/runs/${shown.id}`);
  const results = page.getByRole("region", { name: "Results" });
  await results.getByText("1 of 70 rows").waitFor();
  await results.locator("pre").getByText("<img src=x onerror=alert(1)>").waitFor();
  await results.locator("img").waitFor();
  assert.equal(await results.locator("script, i, svg, img:not([src^='blob:'])").count(), 0);
  await page.getByText(`belljar session code ${session.id} --context`).waitFor();
  await page.getByRole("link", { name: "Run again" }).click();
  await page.getByText("whose variables stay").waitFor();
  await page.locator(".cm-content").getByText("total_rows").waitFor();
  await page.keyboard.press("Control+Enter");
  await results.getByText("1 of 70 rows").waitFor();

  // The notebook is text as well, and a file that is not a notebook is reported.
  await v.open(`sandbox/sessions/${session.id}?file=notebook.ipynb`);
  await page.getByRole("button", { name: "Edit as text" }).click();
  await page.locator(".file .cm-content").getByText('"cell_type": "code"', { exact: false }).first().waitFor();
  await page.getByRole("button", { name: "As a notebook" }).click();
  await picture.waitFor();
  await session.write("broken.ipynb", "{");
  await v.open(`sandbox/sessions/${session.id}?file=broken.ipynb`);
  await page.getByText("This is not a notebook").waitFor();
});

test("a notebook with another name says that its variables are missing", async (t) => {
  const v = await visit(t);
  v.allow(/404 .*fs\/list/); // the folder may get its other name while it is listed
  const { page } = v;
  const session = await v.api.sessions.create({ base_image: "host" });
  await session.write("d/a.ipynb", "");
  await v.open(`sandbox/sessions/${session.id}?file=d/a.ipynb`);
  const cell = page.getByRole("region", { name: "Cell 1", exact: true });
  await cell.locator(".cm-content").click();
  await page.keyboard.insertText("x = 41; x + 1");
  await page.keyboard.press("Control+Enter");
  await cell.locator("pre").getByText("42", { exact: true }).waitFor();
  await page.getByText("● not saved").waitFor({ state: "detached" });
  await page.getByRole("treeitem").filter({ has: page.getByText("d", { exact: true }) }).focus();
  await page.keyboard.press("F2");
  await page.getByRole("dialog").getByLabel("Name").fill("e");
  await page.keyboard.press("Enter");
  await page.getByText("under this name, its variables are missing").waitFor();
  await page.getByRole("button", { name: "Run cell 1" }).click();
  await page.getByText("under this name, its variables are missing").waitFor({ state: "detached" });
});

test("a merge in progress stays when the last cell ends", async (t) => {
  const v = await visit(t);
  v.allow(/412/);
  const { page } = v;
  const session = await v.api.sessions.create({ base_image: "host" });
  const notebook = (source: string) => JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: {}, cells: [{ cell_type: "code", id: "a", metadata: {}, source, outputs: [], execution_count: null }] });
  const wait = 'import os, time\nprint("begun", flush=True)\nwhile not os.path.exists("end"): time.sleep(0.01)';
  await session.write("n.ipynb", notebook(wait));
  await v.open(`sandbox/sessions/${session.id}?file=n.ipynb`);
  await page.getByRole("button", { name: "Run cell 1" }).click();
  await page.locator(".outputs pre").getByText("begun").waitFor();
  await session.write("n.ipynb", notebook("theirs"));
  let saves = 0;
  page.on("request", (request) => { if (request.method() !== "GET" && /fs\/(raw|write)/.test(request.url())) saves++; });
  await page.getByRole("button", { name: "Save", exact: true }).click();
  const mine = page.getByRole("dialog").locator(".cm-merge-b .cm-content");
  await mine.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(notebook("merged"));
  await session.write("end", "");
  await page.locator("[aria-live=polite]").filter({ hasText: "Nothing is left to execute" }).waitFor({ state: "attached" });
  await page.evaluate(() => fetch(location.href)); // after a save
  assert.equal(saves, 1);
  await mine.getByText("merged").waitFor();
  await page.getByRole("button", { name: "Save the right side" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.match(await session.files.text("n.ipynb"), /merged/);
});

test("a long notebook makes the page no longer", async (t) => {
  const v = await visit(t);
  const session = await v.api.sessions.create({ base_image: "host" });
  const cells = Array.from({ length: 40 }, (_, i) => ({ cell_type: "code", id: `c${i}`, metadata: {}, execution_count: null, outputs: [], source: `print(${i})` }));
  await session.files.write("long.ipynb", JSON.stringify({ cells, metadata: {}, nbformat: 4, nbformat_minor: 5 }));
  await v.open(`sandbox/sessions/${session.id}?file=long.ipynb`);
  await v.page.getByRole("region", { name: "Cell 40", exact: true }).locator(".cm-content").waitFor();
  const longer = await v.page.evaluate(() => document.documentElement.scrollHeight - document.querySelector("#page")!.getBoundingClientRect().bottom - scrollY);
  assert.ok(longer < 2, `the page is ${longer} px longer`);
});

test("a notebook of up to 8 MiB opens, and one that would grow beyond is saved by its user only", async (t) => {
  const v = await visit(t);
  const { page } = v;
  const session = await v.api.sessions.create({ base_image: "host" });
  const notebook = (mb: number) => JSON.stringify({
    nbformat: 4, nbformat_minor: 5, metadata: { kept: "x".repeat(mb * (1 << 20) - 600) }, cells: [{ cell_type: "code", id: "a", metadata: {}, source: "print('y' * 900)", outputs: [], execution_count: null }],
  });
  await session.write("six.ipynb", notebook(6));
  await session.write("eight.ipynb", notebook(8));
  const run = async (name: string) => {
    await v.open(`sandbox/sessions/${session.id}?file=${name}`);
    await page.getByRole("button", { name: "Run cell 1" }).click();
    await page.locator(".outputs pre").getByText("yyy").waitFor();
    await page.getByText("Executing …").waitFor({ state: "detached" });
  };
  await run("six.ipynb");
  await page.getByText("● not saved").waitFor({ state: "detached" });
  assert.match((await session.files.text("six.ipynb")).slice(-5000), /yyy/);
  const { size } = await session.files.stat("eight.ipynb");
  await run("eight.ipynb");
  const note = page.getByText("larger than the 8 MiB that open here");
  await note.waitFor();
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
  assert.equal((await session.files.stat("eight.ipynb")).size, size);
  await page.getByRole("button", { name: "Clear outputs" }).click();
  await note.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("● not saved").waitFor({ state: "detached" });
});

test("what a cell prints fast is drawn in few steps, and of very many outputs the first", soak, async (t) => {
  const v = await visit(t);
  const { page } = v;
  const session = await v.api.sessions.create({ base_image: "host" });
  const notebook = (source: string, outputs: unknown[] = []) => JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: {}, cells: [{ cell_type: "code", id: "a", metadata: {}, source, outputs, execution_count: null }] });
  await session.write("fast.ipynb", notebook("for i in range(3000): print('line', i, flush=True)"));
  await v.open(`sandbox/sessions/${session.id}?file=fast.ipynb`);
  // All output comes in one answer, in a frame for each line.
  const event = (seq: number, data: object) => `id: ${seq}\ndata: ${JSON.stringify({ seq, t: 0, ...data })}\n\n`;
  const lines = Array.from({ length: 3000 }, (_, i) => event(i + 1, { type: "stdout", data: `line ${i}\n` }));
  await page.route(/runs\/[^/]+\/logs/, async (route) => {
    await route.fetch(); // waits until the run has ended
    await route.fulfill({ contentType: "text/event-stream", body: lines.join("") + event(3001, { type: "event", event: "end", data: {} }) });
  });
  await page.getByRole("button", { name: "Run cell 1" }).waitFor();
  const steps = await page.evaluateHandle(() => {
    const seen = { steps: 0 };
    new MutationObserver((all) => (seen.steps += all.filter((one) => (one.target.nodeType === Node.TEXT_NODE ? one.target.parentElement : (one.target as Element))?.closest(".outputs")).length))
      .observe(document.body, { subtree: true, childList: true, characterData: true });
    return seen;
  });
  await page.getByRole("button", { name: "Run cell 1" }).click();
  await page.locator(".outputs pre").getByText("line 2999").waitFor();
  await page.getByText("Executing …").waitFor({ state: "detached" });
  const { steps: drawn } = await steps.jsonValue();
  assert.ok(drawn < 1000, `${drawn} steps`);

  await session.write("many.ipynb", notebook("", Array.from({ length: 2000 }, (_, i) => ({ output_type: "stream", name: i % 2 ? "stderr" : "stdout", text: `output ${i}` }))));
  await v.open(`sandbox/sessions/${session.id}?file=many.ipynb`);
  await page.getByText("1,500 more outputs in the file.").waitFor();
  assert.equal(await page.locator(".outputs .output").count(), 500);
});
