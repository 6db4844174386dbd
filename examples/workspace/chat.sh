#!/bin/sh
# chat.sh MESSAGE…: starts a server and a session that may reach the model's host, and talks to the chat program in it. The key of the
# model is in MODEL_KEY.
set -eu
host=${MODEL_HOST-api.example.com}
dir=$(mktemp -d)
mkfifo "$dir/ready"

SANDBOX_WORKSPACE_TEMPLATES=$(sed "s/HOST/$host/" templates.json) SANDBOX_EGRESS_ALLOW=${SANDBOX_EGRESS_ALLOW-$host} \
    SANDBOX_END_SESSIONS=true SANDBOX_DRAIN_SEC=0 belljar serve --json --listen 127.0.0.1:0 --data "$dir/data" >"$dir/ready" 2>"$dir/log" &
server=$!
trap 'kill "$server" 2>/dev/null && wait "$server"; rm -rf "$dir"' EXIT
exec 3<"$dir/ready"
read -r ready <&3 || { cat "$dir/log" >&2; exit 1; }
BELLJAR_SERVER=$(echo "$ready" | jq -r .url)
BELLJAR_API_KEY=$(echo "$ready" | jq -r .api_key)
export BELLJAR_SERVER BELLJAR_API_KEY

session=$(belljar session create --secret MODEL_KEY --broker "MODEL_KEY=$host,header=x-api-key" --allow "$host")
belljar session cp -q chat.py "$session:chat.py"
./talk.mjs "$BELLJAR_SERVER/workspace/$session" "$@"
