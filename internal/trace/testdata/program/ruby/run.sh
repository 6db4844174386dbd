# Runs programs that fail and keeps what each prints. It is meant for a sandbox.
mkdir -p out
keep() {
  name=$1
  shift
  "$@" >"out/$name.txt" 2>&1
}
for f in plain cause syntax; do
  keep "$f" ruby "$f.rb"
done
