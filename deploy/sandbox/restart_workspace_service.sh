#!/bin/sh
# Restarts the workspace service of a sprite, and waits until it answers. Sandboxes in the sprite continue. sprite.sh has the settings and
# exit codes.
set -eu
name=restart_workspace_service
. "$(dirname "$0")/sprite.sh"
sprite
service
: "${WAIT:=30}" # seconds until it must answer

api POST "services/$SPRITES_SERVICE_NAME/stop?timeout=5s"
[ "$status" != 404 ] || stop 5 "there is no service $SPRITES_SERVICE_NAME: deploy it first (deploy_workspace_service.sh)"
judge "stop the service"
api POST "services/$SPRITES_SERVICE_NAME/start?duration=1s"
judge "start the service"
if grep -q '"type":"error"' "$work/body"; then
	stop 1 "the service does not start"
fi
until=$(($(date +%s) + WAIT))
TIMEOUT=5
while ask "$service_token" GET "$service_url/healthz" && [ "$status" != 200 ] && [ "$(date +%s)" -lt "$until" ]; do
	case $status in 000 | 5??) sleep 0.1 ;; *) break ;; esac
done
judge "healthz"
say "the service runs"
