function f() {
  eval("null.x");
}
f();
