"use strict";
// Makes a Node interpreter wait for its program: it is loaded by NODE_OPTIONS before the program, and talks to the agent as
// sitecustomize.py does. Workers, which inherit the option but not the variable, go on at once.
if ((process.env.NODE_OPTIONS || "").endsWith(__filename)) {
  const fs = require("fs");
  const socket = 97;
  const receive = () => {
    const message = Buffer.alloc(64 << 10);
    const n = fs.readSync(socket, message);
    if (n === 0) process.reallyExit(0);
    return message.toString("latin1", 0, n).split("\0");
  };
  // What most programs do first: print. V8 compiles Node's own functions when they are called first. This output goes nowhere.
  const nowhere = new (require("net").Socket)();
  nowhere._write = () => {};
  new console.Console({ stdout: nowhere, colorMode: false }).log(1);
  delete process.env.NODE_OPTIONS;
  delete require.cache[__filename];
  module.parent?.children.splice(0);
  Object.defineProperty(process, "_preload_modules", { value: [] });
  receive();
  fs.writeSync(socket, "1");
  const cwd = Buffer.from(receive()[1], "latin1").toString();
  try {
    process.chdir(cwd);
  } catch {
    process.reallyExit(1);
  }
  fs.writeSync(socket, "ready");
  receive();
  fs.closeSync(socket);
}
