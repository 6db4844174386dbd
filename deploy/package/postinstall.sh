#!/bin/sh
# A new installation is started by its operator. One that runs is restarted; its sessions and runs go on.
set -eu
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart belljar.service
fi
