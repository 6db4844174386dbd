import assert from "node:assert/strict";

function check(sum) {
  assert.deepEqual(sum, { of: [1, 2], is: 3 });
}
check({ of: [1, 2], is: 4 });
