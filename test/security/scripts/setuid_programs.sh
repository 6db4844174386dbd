# Attack: Run the set-user-id programs of the image, and make one.
# Why it matters: These programs make an ordinary user root on the image's usual host.
# What must hold: No program changes identity: no_new_privs is set, and native mounts are nosuid.
# Needs: probe
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

found=0
places="/usr/bin/ /usr/sbin/"
[ -L /bin ] || places="$places /bin/ /sbin/" # else they are the same
for program in $(find $places -maxdepth 1 -perm -4000 -type f 2>/dev/null); do
	found=$((found + 1))
done
echo "$found set-user-id programs in the image"
for program in su sudo pkexec; do
	command -v $program >/dev/null || continue
	[ "$($program -c 'id -u' root 2>/dev/null </dev/null)" != 0 ] || breach "$program made root"
done
cp probe own && chmod 6755 own
me="$(id -u) $(id -g)"
./own identity $me || breach "our own set-user-id program changes identity"
# An engine may leave the mark off its root, where no_new_privs alone has to do.
[ "$LANE_RUNTIME" = native ] || exit $failed
grep -q ' nosuid\|,nosuid' /proc/self/mounts || breach "control: no mount says nosuid"
while read -r _ place _ options _; do
	case ",$options," in *,nosuid,*) ;; *) breach "$place allows set-user-id programs" ;; esac
done </proc/self/mounts
exit $failed
