function load(name) {
  throw new TypeError("no " + name);
}

function main() {
  load("file");
}
main();
