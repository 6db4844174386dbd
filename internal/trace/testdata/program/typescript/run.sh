# Runs the compiler with a program that fails and keeps what it prints. It is meant for a sandbox.
mkdir -p out
keep() {
  name=$1
  shift
  "$@" >"out/$name.txt" 2>&1
}
keep plain node tsc/tsc.js --noEmit --pretty false bad.ts
keep pretty node tsc/tsc.js --noEmit --pretty bad.ts
