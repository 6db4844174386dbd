#!/bin/sh
# approval.sh FLAGS…: a user calls belljar run FLAGS… on a server that requires approval of every network; the operator approves it.
set -eu
dir=$(mktemp -d)
mkfifo "$dir/ready" "$dir/notes"

SANDBOX_APPROVAL=network SANDBOX_EGRESS_ALLOW=${SANDBOX_EGRESS_ALLOW-'*'} \
    belljar serve --json --listen 127.0.0.1:0 --data "$dir/data" >"$dir/ready" 2>"$dir/log" &
server=$!
trap 'kill "$server" 2>/dev/null && wait "$server"; rm -rf "$dir"' EXIT
exec 3<"$dir/ready"
read -r ready <&3 || { cat "$dir/log" >&2; exit 1; }
BELLJAR_SERVER=$(echo "$ready" | jq -r .url)
BELLJAR_API_KEY=$(echo "$ready" | jq -r .api_key) # the operator's key
export BELLJAR_SERVER BELLJAR_API_KEY
key=$(belljar token create --user ann)

BELLJAR_API_KEY=$key belljar run "$@" 2>"$dir/notes" &
run=$!
exec 4<"$dir/notes"
read -r note <&4
echo "ann reads:     $note"

id=$(belljar approval ls -q)
echo "operator sees: $(belljar approval ls --json | jq -r '.[] | .user_id + ", " + (.reasons | join(", "))')"
belljar approval approve "$id" --note 'this once' >/dev/null
cat <&4
wait "$run"
