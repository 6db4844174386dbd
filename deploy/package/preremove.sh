#!/bin/sh
# Stops the server when the package goes, and not when another version takes its place: dpkg passes "remove", rpm 0.
set -eu
case "${1:-}" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now belljar.service || echo "belljar: the service is not stopped or disabled" >&2
	fi
	;;
esac
