# Runs programs that fail and keeps what each prints. It is meant for a sandbox.
mkdir -p out
keep() {
  name=$1
  shift
  "$@" >"out/$name.txt" 2>&1
}
mkdir -p node_modules && mv dep node_modules/
for f in plain.js syntax.js emoji.js open.js broken.mjs async.mjs cause.js errors.js eval.js value.js reject.js rejected.js bare.js missing.js number.js package.js assert.mjs map/inline.js map/beside.js "a (b)/späce 1.mjs"; do
  name=$(basename "$f" | sed 's/\..*//; s/[^a-z]//g; s/spce/space/')
  keep "$name" node "$f"
done
keep test node --test map/unit.test.js
keep spec node --test --test-reporter=spec map/unit.test.js
keep maps node --enable-source-maps map/beside.js
keep stdin sh -c 'echo "null.x" | node -'
keep line node -e 'null.x'
keep command node -e 'let x = ;'
