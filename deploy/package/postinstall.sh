#!/bin/sh
# A new installation is started by its operator. One that runs is restarted; its sessions and their commands continue, and
# other runs have drain_sec (30 s) to end.
set -eu
if [ -d /run/systemd/system ]; then
	# A masked unit must not leave the package half installed.
	systemctl daemon-reload || true
	systemctl try-restart belljar.service || echo "belljar: the service is not restarted; systemctl status belljar has the reason" >&2
fi
