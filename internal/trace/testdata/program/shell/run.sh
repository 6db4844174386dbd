# Runs programs that fail and keeps what each prints. It is meant for a sandbox.
mkdir -p out
keep() {
  name=$1
  shift
  "$@" >"out/$name.txt" 2>&1
}
for f in missing syntax unset; do
  keep "bash-$f" bash "$f.sh"
  keep "dash-$f" dash "$f.sh"
done
keep line bash -c 'no-such-command'
