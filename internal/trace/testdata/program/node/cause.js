function read() {
  throw new RangeError("too far");
}
try {
  read();
} catch (e) {
  const wrapped = new Error("cannot read\nthe file", { cause: e });
  wrapped.code = "E_READ";
  throw wrapped;
}
