# Attack: Use the rights one was born with.
# Why it matters: Whoever is root, or in a group of the host, has half of the way out behind him.
# What must hold: User and group 1000, no group beyond, no capability in any set, the bounding one included, no_new_privs, a
#   filter in place.

breach() { echo "BREACH: $*"; failed=1; }
failed=0

[ "$(id -u):$(id -g)" = 1000:1000 ] || breach "ids are $(id -u):$(id -g)"
[ "$(id -un)" = sandbox ] || breach "user is $(id -un)"
for group in $(id -G); do
	[ "$group" = 1000 ] || breach "in group $group"
done
value() { sed -n "s/^$1:[[:space:]]*//p" /proc/self/status; }
for set in CapInh CapPrm CapEff CapBnd CapAmb; do
	[ "$(value $set)" = 0000000000000000 ] || breach "$set is $(value $set)"
done
[ "$(value NoNewPrivs)" = 1 ] || breach "no_new_privs is $(value NoNewPrivs)"
[ "$(value Seccomp)" = 2 ] || breach "seccomp mode is $(value Seccomp)"
exit $failed
