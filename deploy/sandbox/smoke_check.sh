#!/bin/sh
# Checks a workspace service: that it answers, lets only those in who have the token, and has a version that fits. Where a belljar answers,
# which has files as well, it also writes a file and reads it. With BELLJAR, the path of a belljar, it runs a program in the sprite.
#
#   EXPECTED_VERSION   default 0.1.0
#
# sprite.sh has the exit codes and the other settings.
set -eu
name=smoke_check
. "$(dirname "$0")/sprite.sh"
service
: "${EXPECTED_VERSION:=0.1.0}" "${BELLJAR:=}"

ask "$service_token" GET "$service_url/healthz"
judge "healthz"
grep -q '"status"' "$work/body" || stop 5 "healthz: something else answers there"
say "healthz: ok"

ask "$service_token" GET "$service_url/__meta/version"
judge "version"
version=$(sed -n 's/^[Xx]-[Ww]orkspace-[Aa][Pp][Ii]-[Vv]ersion: *\([0-9.]*\).*/\1/p' "$work/head")
[ -n "$version" ] || version=$(sed -n 's/.*"version" *: *"\([0-9.]*\)".*/\1/p' "$work/body")
fits() { case $1 in 0.*) echo "$1" | cut -d. -f1,2 ;; *) echo "$1" | cut -d. -f1 ;; esac; }
[ -n "$version" ] || stop 5 "version: something else answers there"
[ "$(fits "$version")" = "$(fits "$EXPECTED_VERSION")" ] || stop 6 "version: it is $version, and $EXPECTED_VERSION is expected"
say "version: $version"

ask "" GET "$service_url/__meta/version"
case $status in
401 | 403) say "without a token: refused" ;;
*) stop 1 "without a token: it is not refused (status $status)" ;;
esac

ask "$service_token" GET "$service_url/api/capabilities"
if [ "$status" = 200 ]; then
	file=.smoke-check-$$ text="belljar $$"
	ask "$service_token" PUT "$service_url/api/file?path=$file" --header 'Content-Type: application/json' --data-binary "{\"content\":\"$text\"}"
	judge "write a file"
	ask "$service_token" GET "$service_url/api/file?path=$file"
	judge "read a file"
	grep -q "$text" "$work/body" || stop 1 "read a file: it is not what was written"
	ask "$service_token" DELETE "$service_url/api/file?path=$file"
	judge "delete a file"
	ask "$service_token" GET "$service_url/api/tree?path=../../etc"
	[ "$status" = 400 ] || stop 1 "a path that leads out: it is not refused (status $status)"
	say "files: ok"
fi

if [ -n "$BELLJAR" ]; then
	sprite
	out=$("$BELLJAR" run --runtime sprites --allow-weak network,pids,memory,cpu,disk -- /bin/echo "belljar $$" 2>"$work/why") ||
		stop 1 "run a program: $(head -n 3 "$work/why")"
	[ "$out" = "belljar $$" ] || stop 1 "run a program: it printed something else"
	say "run a program: ok"
fi
say "all is well"
