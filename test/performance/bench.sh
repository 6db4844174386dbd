#!/bin/sh
# Measures Belljar alongside bubblewrap, runc and docker in one run, and then its server (LOADFLAGS): test/performance/bench.sh
# BELLJAR [bench flags]. It adds the comparison to docs/benchmarks.csv.
# As root on Debian it installs the peers and starts a separate Docker engine, on a private socket, in a private folder and in a
# separate network, and stops it at the end. It reports unavailable peers as not measured.
set -eu

belljar=$1
shift
work=$(mktemp -d)
engine=
clean() {
	if [ -n "$engine" ]; then
		kill "$engine" 2>/dev/null || :
		wait "$engine" 2>/dev/null || :
	fi
	for at in "$work"/exec/netns/* "$work"/data/overlay2; do
		umount "$at" 2>/dev/null || :
	done
	rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	missing=
	command -v bwrap >/dev/null || missing="$missing bubblewrap"
	command -v runc >/dev/null || missing="$missing runc"
	command -v dockerd >/dev/null || missing="$missing docker.io"
	command -v busybox >/dev/null || missing="$missing busybox-static"
	if [ -n "$missing" ]; then
		echo "installing$missing" >&2
		apt-get update -qq >&2
		# shellcheck disable=SC2086 # a list of words
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
	fi
fi

image=
if [ "$(id -u)" = 0 ] && command -v dockerd >/dev/null && command -v busybox >/dev/null; then
	export DOCKER_HOST="unix://$work/docker.sock"
	unshare --net dockerd --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/pid" --host "$DOCKER_HOST" \
		>"$work/log" 2>&1 &
	engine=$!
	tries=0
	until docker version >/dev/null 2>&1; do
		tries=$((tries + 1))
		if [ $tries -gt 150 ] || ! kill -0 "$engine" 2>/dev/null; then
			echo "the docker engine does not start: $(tail -n 1 "$work/log")" >&2
			break
		fi
		sleep 0.2
	done
	mkdir -p "$work/root/bin"
	cp "$(command -v busybox)" "$work/root/bin/busybox"
	ln -s busybox "$work/root/bin/true"
	if tar -C "$work/root" -c . | docker import - belljar-bench >/dev/null; then
		image=belljar-bench
	fi
fi

"$belljar" bench ${image:+--docker-image "$image"} --report "$work/report.json" "$@"
"${GO:-go}" run ./test/performance/record -commit "${COMMIT:-unknown}" "$work/report.json" docs/benchmarks.csv docs/benchmarks.svg
# shellcheck disable=SC2086 # flags
"${GO:-go}" run ./test/performance/load -belljar "$belljar" ${image:+-docker-image "$image"} ${LOADFLAGS:-}
