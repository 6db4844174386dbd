# Attack: Use names whose resolver lies: an allowed address first and then another one, or only addresses of a special range.
# Why it matters: The owner of a name chooses its addresses, at any time.
# What must hold: A name keeps its address; a name that has only special addresses does not exist.
# Needs: probe
# Host: network
# Expect: warning private_address

failed=0
for i in 1 2 3 4 5 6; do
	./probe reach pinned.test rebind.wild.test || failed=1
done
./probe rebound "$LANE_SPECIAL" bait.wild.test || failed=1
exit $failed
