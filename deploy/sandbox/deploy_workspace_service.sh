#!/bin/sh
# Puts Belljar's agent into a sprite and runs its workspace service there. What is there already stays as it is, so that it can run again.
#
#   SPRITES_BASE_URL, SPRITES_SPRITE_NAME, SPRITES_TOKEN   the sprite
#   SPRITES_WORKSPACE_SERVICE_HOST, _PORT, _PATH           where the service is reached
#   AGENT                  the program belljar-agent; default that of make agents
#   SERVICE_LISTEN_PORT    its port in the sprite; default 8080
#
# sprite.sh has the exit codes and the other settings.
set -eu
name=deploy_workspace_service
here=$(dirname "$0")
. "$here/sprite.sh"
sprite
service
: "${AGENT:=$here/../../cmd/belljar/agent/belljar-agent-linux-amd64}" "${SERVICE_LISTEN_PORT:=8080}"
[ -s "$AGENT" ] || stop 2 "AGENT: there is no program $AGENT; make agents builds it"
case $SERVICE_LISTEN_PORT in '' | *[!0-9]*) stop 2 "SERVICE_LISTEN_PORT must be a number" ;; esac

root=$SANDBOX_SPRITES_SERVICE_ROOT token_file=$SPRITES_SECRETS_DIR/workspace-token
config="{\\\"listen\\\":\\\":$SERVICE_LISTEN_PORT\\\",\\\"path\\\":\\\"$prefix\\\",\\\"token_file\\\":\\\"$token_file\\\"}"
# mkdir and chmod stand in the service, because the API makes folders for files only.
start="mkdir -p $SANDBOX_SPRITES_WORKSPACE_ROOT $root/run/secrets && chmod 700 $root/run/secrets $SPRITES_SECRETS_DIR && exec $root/belljar-agent workspace '$config'"
printf '{"cmd":"/bin/sh","args":["-c","%s"],"needs":[],"http_port":%s}' "$start" "$SERVICE_LISTEN_PORT" >"$work/service.json"
printf '%s\n' "$service_token" >"$work/token"

# The record of a deployment is written last: one that was cut off is made again.
cat "$AGENT" "$work/service.json" "$work/token" | sha256sum | cut -c1-64 >"$work/version"
api GET "fs/read?path=$root/version&workingDir=/"
case $status in 404) ;; *) judge "read $root/version" ;; esac
if [ "$status" = 200 ] && cmp -s "$work/body" "$work/version"; then
	say "the service is deployed already"
	exit 0
fi
put "$AGENT" "$root/belljar-agent" 0755
put "$work/token" "$token_file" 0600
api PUT "services/$SPRITES_SERVICE_NAME?duration=2s" --header 'Content-Type: application/json' --data-binary "@$work/service.json"
judge "make the service"
if grep -q '"type":"error"' "$work/body"; then
	stop 1 "the service does not start"
fi
put "$work/version" "$root/version" 0644
say "the service is deployed"
