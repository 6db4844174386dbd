# Attack: Provide an image with set-user-id programs, and one that carries capabilities.
# Why it matters: Files that root unpacks keep these marks, for every user of the host.
# What must hold: The marks are removed or have no effect: no program becomes root or gets a capability.
# Image: set-user-id
# Needs: probe

breach() { echo "BREACH: $*"; failed=1; }
failed=0

[ -x /bin/su ] || breach "control: the program is not there"
[ "$(/bin/su -c 'id -u' root 2>/dev/null </dev/null)" != 0 ] || breach "su made root"
for program in /bin/su /bin/capable; do
	cat >status.sh <<'END'
grep -q '^CapEff:.*[1-9a-f]' /proc/self/status && echo capable
id -u
END
	case "$(sh -c "exec $program sh status.sh" 2>/dev/null)" in capable* | 0) breach "$program gives rights" ;; esac
done
if [ "$LANE_RUNTIME" = native ]; then
	[ -u /bin/su ] && breach "su has its mark"
	[ -g /bin/su ] && breach "su has its mark for groups"
fi
cp probe own && chmod 6755 own && ./own identity "$(id -u)" "$(id -g)" || failed=1
exit $failed
