#!/bin/sh
# Writes the programs that clients may start in a sprite into a file for SANDBOX_WORKSPACE_TEMPLATES, after it has found them there. A
# client names one of them and cannot change it. The file is only written where it differs.
#
#   OUTPUT         the file; default workspace-templates.json
#   PTY_SHELL      the shell of terminals in the sprite; default /bin/bash
#   CHAT_COMMAND   a program that speaks JSON lines, by its path in the sprite; default none
#
# sprite.sh has the exit codes and the other settings.
set -eu
name=configure_exec_profiles
. "$(dirname "$0")/sprite.sh"
sprite
: "${OUTPUT:=workspace-templates.json}" "${PTY_SHELL:=/bin/bash}" "${CHAT_COMMAND:=}"
plain PTY_SHELL
[ -z "$CHAT_COMMAND" ] || plain CHAT_COMMAND

for program in "$PTY_SHELL" $CHAT_COMMAND; do
	api GET "fs/list?path=$(dirname "$program")&workingDir=/"
	[ "$status" != 404 ] || stop 1 "the sprite has no $program"
	judge "look for $program"
	base=$(basename "$program" | sed 's/[.]/[.]/g')
	grep -q "\"name\": *\"$base\"" "$work/body" || stop 1 "the sprite has no $program"
done
{
	printf '{"shell":{"kind":"pty","command":["%s"]}' "$PTY_SHELL"
	[ -z "$CHAT_COMMAND" ] || printf ',"chat":{"kind":"chat","command":["%s"]}' "$CHAT_COMMAND"
	printf '}\n'
} >"$work/templates"
if cmp -s "$work/templates" "$OUTPUT"; then
	say "$OUTPUT is as it should be"
	exit 0
fi
cp "$work/templates" "$OUTPUT.new" && mv "$OUTPUT.new" "$OUTPUT" || stop 1 "$OUTPUT cannot be written"
say "wrote $OUTPUT; set SANDBOX_WORKSPACE_TEMPLATES to what is in it"
