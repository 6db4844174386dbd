// The log viewer, against a real server.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { soak } from "./tier.ts";
import { alsoAccessible, serve, tempDir, visit, within, type Visit } from "./world.ts";

/** python runs a program to its end and opens the page of its run. */
async function python(v: Visit, code: string, hash = ""): Promise<string> {
  const { id } = await v.api.run({ language: "python", code });
  await v.open(`sandbox/runs/${id}${hash}`);
  return id;
}

const foot = (page: Page) => page.locator(".log .foot");
const texts = (page: Page) => page.locator(".log .line .text").allInnerTexts();
const numbers = (page: Page, of = ".line") => page.locator(`.log ${of} .number`).allInnerTexts();
const whole = (page: Page, lines: string) => foot(page).filter({ hasText: new RegExp(`^${lines} lines?, [^·]*$`) }).waitFor();

/** inView waits until a line is visible, and returns the numbers of the visible lines. */
async function inView(page: Page, number: number): Promise<number[]> {
  const handle = await page.waitForFunction((wanted) => {
    const box = document.querySelector(".log .scroller")?.getBoundingClientRect();
    if (!box) return undefined; // the page is loading
    const seen = [...document.querySelectorAll(".log .line .number")].filter((n) => {
      const at = n.getBoundingClientRect();
      return at.top >= box.top - 1 && at.bottom <= box.bottom + 1;
    }).map((n) => Number(n.textContent));
    return seen.includes(wanted) ? seen : undefined;
  }, number, { polling: 50 });
  return (await handle.jsonValue())!;
}

test("a long log is scrolled by mouse and keyboard", soak, async (t) => {
  const v = await visit(t);
  await python(v, "for i in range(1, 100001): print('line', i)");
  const { page } = v;
  await whole(page, "100,000");
  const seen = await inView(page, 1);
  assert.deepEqual(seen, Array.from(seen, (_, i) => i + 1), "lines follow each other");
  assert.ok((await page.locator(".log .line").count()) < 200, "only what is visible is on the page");
  const lines = page.getByRole("region", { name: "Lines of the log" });
  await lines.focus();
  await page.keyboard.press("End");
  await inView(page, 100_000);
  await page.keyboard.press("PageUp");
  assert.ok(!(await inView(page, 99_970)).includes(100_000));
  await page.keyboard.press("Home");
  await inView(page, 1);
  await page.keyboard.press("PageDown");
  assert.ok(!(await inView(page, 40)).includes(1));
  await page.mouse.move(400, 500);
  await page.mouse.wheel(0, 400);
  await inView(page, 60);
  await page.getByRole("button", { name: "Wrap" }).click();
  await lines.focus();
  await page.keyboard.press("End");
  await inView(page, 100_000);
  await page.keyboard.press("Home");
  await inView(page, 1);
  assert.deepEqual((await texts(page)).slice(0, 2), ["line 1", "line 2"]);
});

test("wrapped lines end where the log ends", soak, async (t) => {
  const v = await visit(t);
  await python(v, "for i in range(1, 2001): print(i, 'word ' * (i % 300))");
  await whole(v.page, "2,000");
  await v.page.getByRole("button", { name: "Wrap" }).click();
  await v.page.getByRole("region", { name: "Lines of the log" }).focus();
  await v.page.keyboard.press("End");
  await inView(v.page, 2000);
  assert.ok((await v.page.locator(".log .line").last().boundingBox())!.height > 40, "it is wrapped");
  await v.page.keyboard.press("Home");
  await inView(v.page, 1);
  await v.page.evaluate(() => (location.hash = "#L1000"));
  await inView(v.page, 1000);
});

test("the end is followed until the reader scrolls up", async (t) => {
  const v = await visit(t);
  const { page } = v;
  const { id } = await v.api.runs.start({ language: "python", interactive: true, stdin_idle_timeout_sec: 300, code: "n = 0\nfor line in iter(input, ''):\n  for _ in range(int(line)): n += 1; print('line', n, flush=True)" });
  const input = await v.api.runs.input(id);
  await input.write("500\n");
  await v.open(`sandbox/runs/${id}`);
  await inView(page, 500);
  await input.write("500\n");
  await inView(page, 1000);
  await page.getByRole("region", { name: "Lines of the log" }).focus();
  await page.keyboard.press("PageUp");
  await page.keyboard.press("PageUp");
  await page.getByRole("button", { name: "Follow" }).waitFor();
  const before = await inView(page, 945);
  await input.write("300\n");
  await page.getByRole("button", { name: "300 new lines" }).waitFor();
  assert.deepEqual(await inView(page, 945), before, "the reader is left where he is");
  await page.getByRole("button", { name: "300 new lines" }).click();
  await inView(page, 1300);
  await input.write("10\n");
  await inView(page, 1310);
  await alsoAccessible(page, "run-live");
  await input.write("\n");
  await page.getByRole("heading", { name: /^Completed/ }).waitFor();
  await whole(page, "1,310");
});

test("links to lines", async (t) => {
  const v = await visit(t);
  const { page } = v;
  await python(v, "for i in range(1, 3001): print('line', i)", "#L1200-L1202");
  await inView(page, 1200);
  assert.deepEqual(await numbers(page, ".line.chosen"), ["1200", "1201", "1202"]);
  await page.locator(".log .number a", { hasText: /^1205$/ }).click();
  assert.equal(new URL(page.url()).hash, "#L1205");
  await page.locator(".log .number a", { hasText: /^1203$/ }).click({ modifiers: ["Shift"] });
  assert.equal(new URL(page.url()).hash, "#L1203-L1205");
  assert.deepEqual(await numbers(page, ".line.chosen"), ["1203", "1204", "1205"]);
  await page.reload();
  await inView(page, 1203);
  await page.getByLabel("Search in the log").fill(":2500");
  await page.keyboard.press("Enter");
  await inView(page, 2500);
  await page.getByLabel("Search in the log").fill(":9999");
  await page.keyboard.press("Enter");
  await foot(page).getByText("there is no line 9999").waitFor();
  for (const bad of ["#L0", "#L9999999", "#Lx", "#L5-L"]) await page.evaluate((hash) => (location.hash = hash), bad);
  await page.evaluate(() => new Promise(requestAnimationFrame));
  assert.deepEqual(await numbers(page, ".line.chosen"), []);
  await inView(page, 2500);
});

test("search by text and expression", async (t) => {
  const v = await visit(t);
  const { page } = v;
  await python(v, "import sys\nfor i in range(1, 5001): print('line', i, 'Needle' if i % 1000 == 0 else '')\nprint('a' * 40 + 'b')");
  await whole(page, "5,001");
  const box = page.getByLabel("Search in the log");
  const hits = page.locator(".log .hits");
  const says = (text: string) => hits.filter({ hasText: text }).waitFor();
  await page.getByRole("region", { name: "Lines of the log" }).focus();
  await page.keyboard.press("Control+f");
  assert.equal(await box.evaluate((e) => e === document.activeElement), true);
  const prevented = page.evaluate(() => new Promise((resolve) => window.addEventListener("keydown", (e) => resolve(e.defaultPrevented), { once: true })));
  await box.press("Control+f");
  assert.equal(await prevented, false, "the second time, the browser's own search opens");
  await box.fill("needle");
  await says("1 / 5");
  await inView(page, 1000);
  assert.deepEqual(await page.locator(".log .line.current .hit").allInnerTexts(), ["Needle"]);
  await page.keyboard.press("F3");
  await says("2 / 5");
  await inView(page, 2000);
  await page.keyboard.press("Shift+F3");
  await page.keyboard.press("Shift+F3");
  await says("5 / 5");
  await inView(page, 5000);
  await page.getByRole("button", { name: "Match case" }).click();
  await says("0 lines");
  await page.getByRole("button", { name: "Match case" }).click();
  await page.getByRole("button", { name: "Regular expression" }).click();
  await box.fill("^line [24]000 ");
  await says("/ 2");
  await box.fill("line [1-4]");
  await says("/ 4,444");
  const size = page.viewportSize()!;
  for (const width of [1280, 961, 390, 320]) {
    await page.setViewportSize({ ...size, width });
    assert.deepEqual(await page.locator(".log .hits, .log .tools, .log .tools .row").evaluateAll((all) => all.filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.className)), [], `cut at ${width} px`);
  }
  await page.setViewportSize(size);
  await box.fill("(");
  await says("No regular expression");
  await box.fill("(a|a)*c");
  await says("takes too long");
  await box.fill("line 4999");
  await says("1 / 1");
  await inView(page, 4999);
  await page.keyboard.press("Escape");
  assert.equal(await box.inputValue(), "");
});

test("streams can be distinguished", async (t) => {
  const v = await visit(t);
  const { page } = v;
  // All lines are visible, because the server may read one stream to its end before the other.
  await python(v, "import sys\nfor i in range(9):\n  print('out', i)\n  if i % 3 == 0: print('err', i, file=sys.stderr)");
  await whole(page, "12");
  const out = Array.from({ length: 9 }, (_, i) => `out ${i}`);
  const err = ["err 0", "err 3", "err 6"];
  const choose = async (output: string, lines: string[]) => {
    await page.getByLabel("Which output").selectOption(output);
    await page.waitForFunction((count) => document.querySelectorAll(".log .line").length === count, lines.length);
    assert.deepEqual((await texts(page)).toSorted(), lines);
  };
  await choose("stdout", out);
  await choose("stderr", err);
  const says = (text: string) => page.locator(".log .hits").filter({ hasText: text }).waitFor();
  await page.getByLabel("Search in the log").fill("err");
  await says("1 / 3");
  await choose("stdout", out);
  await says("0 lines");
  assert.ok(await page.getByRole("button", { name: "Next hit" }).isDisabled(), "no hit is out of sight");
  await choose("both", [...err, ...out]);
  await says("3 lines");

  await python(v, "print('only this')");
  await whole(page, "1");
  await page.getByLabel("Which output").selectOption("stderr");
  await page.getByText("The chosen output has no lines.").waitFor();
});

test("nothing in a log becomes markup, a link or a request", async (t) => {
  const v = await visit(t);
  const { page } = v;
  await python(v, String.raw`
import sys
w = sys.stdout.buffer.write
w(b'<img src=x onerror="document.title=1"><script>document.title=2</script>\n')
w(b'\x1b]8;;https://evil.example/\x1b\\click\x1b]8;;\x1b\\ \x1b]52;c;cm0=\x07copied\n')
w('\u202egnp.exe\u202c \u05d0\u05d1\n'.encode())
w(b'nul\x00 bell\x07 bad\xff\xfe\n')
w(b'\x1b[31;1mred\x1b[0m \x1b[38;2;1;2;3mtrue\x1b[0m \x1b[7minverse\x1b[0m\n')
w(b'10%\r50%\r100%\n')
w(b'\x1b[31m' * 200000 + b'bomb\x1b[0m\n')
w(b'x' * 3000000 + b'\n')
w(b'\x1b]0;' + b'no end' * 10 + b'\n')
w(b'\x1b[2J\x1b[Hlast\n')
`);
  await whole(page, "10");
  await page.waitForFunction(() => document.querySelectorAll(".log .line").length === 10);
  const [markup, osc, rtl, nul, colours, bar, , , open, last] = await texts(page);
  assert.equal(markup, '<img src=x onerror="document.title=1"><script>document.title=2</script>');
  assert.equal(osc, "click copied");
  assert.equal(rtl, "\ufffdgnp.exe\ufffd \u05d0\u05d1");
  assert.equal(nul, "nul\u2400 bell bad\ufffd\ufffd");
  assert.equal(colours, "red true inverse");
  assert.equal(bar, "100%");
  assert.match(open!, /^0;no end/);
  assert.equal(last, "last");
  assert.equal(await page.locator(".log img, .log script, .log .text a").count(), 0);
  assert.equal(await page.locator(".log .line").nth(4).locator("span.b").evaluate((e) => getComputedStyle(e).color), "rgb(168, 32, 29)");
  assert.equal(await page.locator(".log .line").nth(4).getByText("true").evaluate((e) => getComputedStyle(e).color), "rgb(1, 2, 3)");
  assert.equal(await page.title(), `Run …${new URL(page.url()).pathname.slice(-8)} · Belljar`);
  await page.getByRole("button", { name: "show 2.9 MiB more" }).click();
  await page.getByText("2.6 MiB more: download the log").waitFor();
  await alsoAccessible(page, "run-hostile");
});

test("a log is downloaded, and opened raw", async (t) => {
  const v = await visit(t);
  const id = await python(v, "for i in range(3): print('line', i)");
  const [download] = await Promise.all([v.page.waitForEvent("download"), v.page.locator(".log").getByRole("button", { name: "Download" }).click()]);
  assert.equal(download.suggestedFilename(), `${id}.log`);
  const chunks: Buffer[] = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk as Buffer);
  assert.equal(Buffer.concat(chunks).toString(), "line 0\nline 1\nline 2\n");
  const [raw] = await Promise.all([v.context.waitForEvent("page"), v.page.getByRole("button", { name: "Raw" }).click()]);
  await raw.getByText("line 2").waitFor();
});

test("frames of files in a session lead to its editor", async (t) => {
  const v = await visit(t);
  await using session = await v.api.sessions.create({ base_image: "host" });
  const { id } = await v.api.run({ session_id: session.id, language: "python", code: "\n__import__('json').loads('x')" });
  await v.open(`sandbox/runs/${id}`);
  const failure = v.page.getByRole("region", { name: "What its output says" });
  for (const links of [v.page.locator(".log .text a"), failure.getByRole("link")]) {
    const to = new URL(await links.first().evaluate((e: HTMLAnchorElement) => e.href));
    assert.equal(to.pathname, `/webui/sandbox/sessions/${session.id}`);
    assert.equal(to.searchParams.get("line"), "2");
    assert.match(to.searchParams.get("file")!, /\.py$/);
  }
  const frames = failure.getByRole("listitem");
  assert.equal(await frames.count(), 1); // the program's own frames only
  await failure.getByRole("button", { name: /^Show all \d frames$/ }).click();
  await frames.filter({ hasText: /decoder\.py:\d+ in / }).first().waitFor();
  assert.equal(await failure.getByRole("link").count(), 1);
  await failure.getByRole("button", { name: "Show fewer" }).click();
  assert.equal(await frames.count(), 1);
});

test("logs of running programs in hidden windows leave the browser connections for other pages", async (t) => {
  const v = await visit(t);
  const { id } = await v.api.runs.start({ language: "shell", interactive: true, stdin_idle_timeout_sec: 300, code: "echo first; read answer; echo $answer" });
  const show = (page: Page, state: "hidden" | "visible") => page.evaluate((value) => {
    Object.defineProperty(document, "visibilityState", { configurable: true, value });
    document.dispatchEvent(new Event("visibilitychange"));
  }, state);
  // A browser opens six connections to a server.
  for (let n = 0; n <= 6; n++) {
    const page = n === 0 ? v.page : await v.tab();
    await v.open(`sandbox/runs/${id}`, page);
    await page.locator(".log").getByText("first").waitFor();
    await show(page, "hidden");
  }
  await (await v.api.runs.input(id)).write("second\n");
  await v.api.runs.wait(id);
  await show(v.page, "visible");
  await whole(v.page, "2");
  assert.deepEqual(await texts(v.page), ["first", "second"]);
});

test("a server that is killed in the middle of a log and started again: no gap, no duplicate, and the first error stays", soak, async (t) => {
  const data = tempDir(t);
  const first = await serve(t, { data });
  const v = await visit(t, { place: first });
  v.allow(/ERR_|Failed to load resource/);
  const { page } = v;
  const { id } = await v.api.runs.start({ language: "python", interactive: true, stdin_idle_timeout_sec: 300, code: "for i in range(1, 20001): print('line', i, flush=True)\ninput()\nfor i in range(20001, 30001): print('line', i, flush=True)" });
  await v.open(`sandbox/runs/${id}`);
  await inView(page, 20_000);
  await first.kill();
  await page.getByText("The connection to the server broke.").waitFor();
  const second = await within("the server", serve(t, { data, listen: new URL(first.url).host }));
  assert.equal(second.url, first.url);
  await (await v.api.runs.input(id)).write("go on\n"); // the run has survived the restart of the server
  await inView(page, 30_000);
  await page.getByRole("heading", { name: /^Completed/ }).waitFor();
  await whole(page, "30,000");
  for (const line of [1, 10_000, 20_000, 20_001, 30_000]) {
    await page.evaluate((n) => (location.hash = `#L${n}`), line);
    await inView(page, line);
    assert.deepEqual(await page.locator(".log .line.chosen .text").allInnerTexts(), [`line ${line}`]);
  }
  await page.getByText("The connection to the server broke.").waitFor();
  await page.getByText("no line is missing").waitFor();
  await page.locator(".log").getByRole("button", { name: "Dismiss" }).click();
  assert.equal(await page.getByText("The connection to the server broke.").count(), 0);
});
