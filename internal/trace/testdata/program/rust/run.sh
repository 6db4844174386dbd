# Runs programs that fail and keeps what each prints. It is meant for a sandbox.
mkdir -p out
keep() {
  name=$1
  shift
  "$@" >"out/$name.txt" 2>&1
}
if [ -e p ]; then # compiled elsewhere, as what the compiler said
  mv b.rs.txt out/build.txt
else
  keep build rustc b.rs
  rustc -g p.rs
fi
keep plain ./p
RUST_BACKTRACE=1 keep backtrace ./p
