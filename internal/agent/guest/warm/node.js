"use strict";
// Makes a Node interpreter wait for its program. NODE_OPTIONS loads this file before the program, and it talks to the agent as
// sitecustomize.py does. Workers inherit the option but not the variable, and do not wait.
if ((process.env.NODE_OPTIONS || "").endsWith(__filename)) {
  const fs = require("fs");
  const socket = 97;
  const receive = () => {
    const message = Buffer.alloc(64 << 10);
    const n = fs.readSync(socket, message);
    if (n === 0) process.reallyExit(0);
    return message.toString("latin1", 0, n).split("\0");
  };
  // Print once, as most programs do first: V8 compiles Node's own functions on their first call. The line is discarded, and the program's
  // own pipe gets an empty write.
  const { Socket } = require("net");
  const nowhere = new Socket();
  nowhere._write = () => {};
  new console.Console({ stdout: nowhere, colorMode: false }).log(1);
  try {
    const pipe = new Socket({ fd: fs.openSync("/proc/self/fd/1", fs.constants.O_WRONLY | fs.constants.O_NONBLOCK), readable: false, writable: true });
    pipe.write("");
    pipe.unref()._handle.close(); // destroy would make process.stderr
  } catch {} // not a pipe
  // At the end of a program, Node frees its heap, which takes longer than most programs run; reallyExit does not. This adds the last
  // listener of exit, when Node looks up process.emit. After a failure Node ends normally, because it prints the error after the listeners.
  const { emit, reallyExit } = process;
  Object.defineProperty(process, "emit", {
    configurable: true,
    get() {
      if (process._exiting) {
        delete process.emit;
        process.on("exit", (code) => code === 0 && !process.exitCode && reallyExit.call(process, 0));
      }
      return emit;
    },
    set: (value) => Object.defineProperty(process, "emit", { value, writable: true, enumerable: true, configurable: true }),
  });
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
