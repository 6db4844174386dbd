# Attack: Use the rights that the program has from its start.
# Why it matters: A program that is root, or in a group of the host, needs only one more flaw to get out.
# What must hold: User and group are 1000 (with Docker any that no person of the host has), with no other group, no capability in any set
#   including the bounding set, no_new_privs, and a filter in place.
# Needs: probe
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

case "$LANE_RUNTIME" in
docker) ./probe identity any any || failed=1 ;;
*) ./probe identity 1000 1000 || failed=1 ;;
esac
[ "$LANE_IMAGE" != host ] || [ "$(id -un)" = sandbox ] || breach "user is $(id -un)"
exit $failed
