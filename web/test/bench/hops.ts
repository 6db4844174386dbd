// Measures each step between the submission of a run and its first line on the screen: `npm run bench -- hops`.
import { Until } from "../browser/owner.ts";
import { visit } from "../browser/world.ts";

const owner = new Until();
const v = await visit(owner);
await v.page.addInitScript(() => {
  const marks: [string, number][] = [];
  const note = (name: string) => { if (!marks.some(([n]) => n === name)) marks.push([name, performance.now()]); };
  Object.assign(window, { marks, begun: () => { marks.length = 0; } });
  document.addEventListener("keydown", (e) => { if (e.key === "Enter") note("key"); }, { capture: true });
  const Real = window.Worker;
  window.Worker = class extends Real {
    constructor(url: string | URL, options?: WorkerOptions) {
      super(url, options);
      note("worker made");
      this.addEventListener("message", ({ data }) => {
        note("worker speaks");
        if (data.is === "state" && data.connection.state === "open") note("stream open");
        if (data.is === "event") note(`event ${data.event}`);
        if (data.is === "rows" && data.rows.length > 0) note("rows here");
      });
    }
  };
  const real = window.fetch;
  window.fetch = async (input, init) => {
    const name = `${init?.method ?? "GET"} ${String(input instanceof Request ? input.url : input).replace(/.*sandbox/, "").replace(/[0-9a-f-]{36}/, "ID").replace(/\?.*/, "")}`;
    note(`${name} sent`);
    const answer = await real(input, init);
    note(`${name} answered`);
    return answer;
  };
  const look = new MutationObserver(() => {
    if (document.querySelector("section.log")) note("run page");
    if ([...document.querySelectorAll("[aria-label='Lines of the log'] [role=row]")].some((one) => one.textContent?.trim())) {
      note("line in the page");
      if (!marks.some(([n]) => n === "asked frame")) { note("asked frame"); requestAnimationFrame(() => note("frame")); }
    }
  });
  look.observe(document, { childList: true, subtree: true, characterData: true });
});
const all = new Map<string, number[]>();
const count = Number(process.env["BELLJAR_BENCH_HOPS"] ?? 15);
for (let i = 0; i < count; i++) {
  await v.open("sandbox");
  await v.page.getByText("Command", { exact: true }).first().click();
  await v.page.getByRole("textbox", { name: "Command" }).fill(`echo line ${i}`);
  await v.page.evaluate(() => (window as unknown as { begun: () => void }).begun());
  await v.page.keyboard.press("Control+Enter");
  await v.page.waitForFunction(() => (window as unknown as { marks: [string, number][] }).marks.some(([n]) => n === "frame"));
  const marks = await v.page.evaluate(() => (window as unknown as { marks: [string, number][] }).marks);
  const begin = marks.find(([n]) => n === "key")![1];
  for (const [name, at] of marks) all.set(name, [...(all.get(name) ?? []), at - begin]);
}
for (const [name, times] of [...all].sort((a, b) => mid(a[1]) - mid(b[1]))) console.log(`${name.padEnd(40)} ${mid(times).toFixed(0).padStart(5)} ms  (${times.length})  max ${Math.max(...times).toFixed(0)}`);
await owner.end();

function mid(values: number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!;
}
