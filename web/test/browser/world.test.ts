// The watch over the page works, or the other tests would prove little.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Until } from "./owner.ts";
import { visit } from "./world.ts";

const faults: [string, RegExp, () => unknown][] = [
  ["an inline style element", /violation of style-src-elem/, () => document.head.append(Object.assign(document.createElement("style"), { textContent: "p{}" }))],
  ["markup from a text", /violation of require-trusted-types-for/, () => { try { document.body.innerHTML = "<b>x</b>"; } catch { /* it is noted */ } }],
  ["a console.error", /console: something is wrong/, () => console.error("something is wrong")],
  ["an uncaught error", /uncaught: .*not caught/, () => void setTimeout(() => { throw new Error("not caught"); })],
  ["a request to another host", /violation of connect-src/, () => fetch("http://127.0.0.1:9/").catch(() => 0)],
];

for (const [name, pattern, fault] of faults) {
  test(`the watch notes ${name}`, async () => {
    const inner = new Until();
    const v = await visit(inner);
    await v.open("sandbox");
    const seen = name === "an uncaught error" ? v.context.waitForEvent("weberror") : v.context.waitForEvent("console");
    await v.page.evaluate(fault);
    await seen;
    await v.page.evaluate(() => new Promise(requestAnimationFrame)); // what the page has sent before this is here
    await assert.rejects(inner.end(), (error: Error) => pattern.test(error.message));
  });
}

test("what a test announces is no fault", async (t) => {
  const v = await visit(t);
  v.allow(/announced/);
  await v.open("sandbox");
  await v.page.evaluate(() => console.error("this was announced"));
});
