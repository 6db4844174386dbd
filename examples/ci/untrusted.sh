#!/bin/sh
# untrusted.sh TREE RESULTS: runs the tests of a tree that nobody has vetted, in a sandbox, and leaves RESULTS/junit.xml and
# RESULTS/summary.md. The exit status is 0 if they pass. With BELLJAR_SERVER and BELLJAR_API_KEY a server does it.
set -eu
tree=$1
results=$2
here=$(cd "$(dirname "$0")" && pwd)
command -v belljar >/dev/null || { echo 'untrusted.sh: belljar is not on the PATH' >&2; exit 2; }
rm -rf -- "$results/raw" # of a job before
mkdir -p "$results/raw"

# The harness is ours and not the tree's. What the tests print, the report and the exit status are the tree's word: nothing
# of it is trusted further than that.
belljar run --json --quiet \
    --timeout 300 --memory 256m --pids 64 --workspace 64m \
    --dir "$tree" --capture report.xml --out "$results/raw" \
    "$here/harness.py" </dev/null >"$results/raw/run.json" || true # what became of it is in there

python3 "$here/summary.py" "$results"
