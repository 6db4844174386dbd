# Attack: Search for the secrets of a living sandbox, and of one that has ended.
# Why it matters: Neighbours do not trust each other, and memory is reused.
# What must hold: A run without secrets has no folder of secrets, and no other sandbox's secret is visible.
# Host: secret-neighbour

breach() { echo "BREACH: $*"; failed=1; }
failed=0

[ ! -e /run/secrets ] || breach "there is a folder of secrets"
for root in /proc/[0-9]*/root; do
	[ ! -e "$root/run/secrets" ] || breach "$root has a folder of secrets"
done
find / -path '/usr/*/*' -prune -o -path /proc -prune -o -name '*NEIGHBOUR_TOKEN*' -print 2>/dev/null | grep . && breach "a secret of the neighbour was found"
exit $failed
