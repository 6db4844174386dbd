async function inner() {
  await null;
  null.field;
}

async function outer() {
  await inner();
}
await outer();
