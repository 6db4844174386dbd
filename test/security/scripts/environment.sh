# Attack: Read every environment and every command line.
# Why it matters: The server's environment holds keys.
# What must hold: Programs see only the variables that Belljar sets, none of the caller's, and no command line of the host.
# Host: bait
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

for name in $(env | sed 's/=.*//'); do
	case "$name" in
	PATH | HOME | USER | LOGNAME | LANG | TMPDIR | TERM | PWD | OLDPWD | SHLVL | SHELL | HOSTNAME | _ | LANE_*) ;;
	GREETING) [ "$LANE_IMAGE" != host ] || breach "the environment has $name" ;; # an image says so
	*) breach "the environment has $name" ;;
	esac
done
cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n'
cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n'
exit $failed
