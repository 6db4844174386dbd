// Checks that the watch over the page works, since the other tests rely on it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Until } from "./owner.ts";
import { axe, visit } from "./world.ts";

const faults: [name: string, noted: RegExp, event: "console" | "weberror", fault: () => unknown][] = [
  ["an inline style element", /violation of style-src-elem/, "console", () => document.head.append(Object.assign(document.createElement("style"), { textContent: "p{}" }))],
  ["markup from a text", /violation of require-trusted-types-for/, "console", () => { try { document.body.innerHTML = "<b>x</b>"; } catch { /* recorded */ } }],
  ["a console.error", /console: something is wrong/, "console", () => console.error("something is wrong")],
  ["an uncaught error", /uncaught: .*not caught/, "weberror", () => void setTimeout(() => { throw new Error("not caught"); })],
  ["a request to another host", /violation of connect-src/, "console", () => fetch("http://127.0.0.1:9/").catch(() => 0)],
];

test("the watch notes each fault", async () => {
  const inner = new Until();
  const v = await visit(inner);
  await v.open("sandbox");
  for (const [, , event, fault] of faults) {
    const seen = event === "console" ? v.context.waitForEvent("console") : v.context.waitForEvent("weberror");
    await v.page.evaluate(fault);
    await seen;
    await v.page.evaluate(() => new Promise(requestAnimationFrame)); // waits for the page's earlier messages
  }
  const { message } = await inner.end().then(() => assert.fail("nothing was noted"), (error: Error) => error);
  for (const [name, noted] of faults) assert.match(message, noted, name);
});

test("what a test announces is no fault", async (t) => {
  const v = await visit(t);
  v.allow(/announced/);
  await v.open("sandbox");
  await v.page.evaluate(() => console.error("this was announced"));
});

test("axe-core finds what a page does wrong", async (t) => {
  const v = await visit(t);
  await v.open("sandbox");
  await v.page.evaluate(() => {
    const [image, text] = [document.createElement("img"), document.createElement("p")];
    text.textContent = "hard to read";
    [text.style.color, text.style.backgroundColor] = ["#bbb", "#fff"];
    document.querySelector("main")!.append(image, text);
  });
  const found = await axe(v.page);
  for (const rule of ["color-contrast", "image-alt"]) assert.ok(found.some((one) => one.startsWith(`${rule}: `)), `${rule}: ${found.join("; ")}`);
});
