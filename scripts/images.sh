#!/bin/sh
# Builds the images that belljar can make from Debian packages, and gives them the names that requests elsewhere use:
#
#   scripts/images.sh [RECIPE…]      shell, python, node, go, java; all five by default
#
# BELLJAR is the program (default bin/belljar, or the one on PATH), MIRROR another mirror of Debian. With BELLJAR_SERVER and
# BELLJAR_API_KEY the images are on the server.
#
# The names promise too much: the images are Debian's and never Alpine's, from the closest release of Debian. node:20-alpine
# is Debian 13's Node 20, golang:1.22-alpine its Go 1.24, which compiles code for 1.22.
set -eu

here=$(dirname "$0")
belljar=${BELLJAR:-$here/../bin/belljar}
[ -x "$belljar" ] || belljar=${BELLJAR:-belljar}

build() {
	case $1 in
	shell) set -- "$1" --suite bookworm --alias debian:bookworm-slim ;;
	python) set -- "$1" --suite bookworm --alias python:3.11-slim --alias python:3.11 ;;
	node) set -- "$1" --suite trixie --alias node:20-alpine --alias node:20-slim --alias node:20 ;;
	go) set -- "$1" --suite trixie --alias golang:1.22-alpine --alias golang:1.22 ;;
	java) set -- "$1" --suite bookworm --alias eclipse-temurin:17-jre --alias eclipse-temurin:17 ;;
	*)
		echo "images.sh: $1 is not one of shell, python, node, go, java" >&2
		return 125
		;;
	esac
	[ -z "${MIRROR:-}" ] || set -- "$@" --mirror "$MIRROR"
	"$belljar" image build "$@"
}

[ $# -gt 0 ] || set -- shell python node go java
failed=0
for recipe in "$@"; do
	status=0
	build "$recipe" || status=$?
	[ "$status" -lt 128 ] || exit "$status" # interrupted
	[ "$status" -eq 0 ] || failed=$status
done
exit "$failed"
