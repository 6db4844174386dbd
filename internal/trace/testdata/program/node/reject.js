const fs = require("node:fs/promises");
async function main() {
  await fs.readFile("/no/such/file");
}
main();
