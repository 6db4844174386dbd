# Attack: Use the rights one was born with.
# Why it matters: Whoever is root, or in a group of the host, has half of the way out behind him.
# What must hold: User and group 1000 (with Docker any but those that people have), no group beyond, no capability in any
#   set, the bounding one included, no_new_privs, a filter in place.
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
