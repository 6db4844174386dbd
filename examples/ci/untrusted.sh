#!/bin/sh
# untrusted.sh TREE RESULTS: runs the tests of an untrusted tree in a sandbox, and writes RESULTS/junit.xml and
# RESULTS/summary.md. The exit status is 0 if they pass. With BELLJAR_SERVER and BELLJAR_API_KEY they run on a server.
set -eu
tree=$1
results=$2
here=$(cd "$(dirname "$0")" && pwd)
rm -rf -- "$results/raw" "$results/junit.xml" "$results/summary.md" # from an earlier job
command -v belljar >/dev/null || { echo 'untrusted.sh: belljar is not on the PATH' >&2; exit 2; }
mkdir -p "$results/raw"

# The harness is ours, not the tree's. The tests' output, the report and the exit status come from the tree and are not trusted.
belljar run --json --quiet \
    --timeout 300 --memory 256m --pids 64 --workspace 64m \
    --dir "$tree" --capture report.xml --out "$results/raw" \
    "$here/harness.py" </dev/null >"$results/raw/run.json" || true # run.json has the outcome

python3 "$here/summary.py" "$results"
