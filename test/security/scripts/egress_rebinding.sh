# Attack: Use names whose resolver lies: first the allowed address and then another, or one of every special range only.
# Why it matters: Who owns a name chooses its addresses, at any time.
# What must hold: A name keeps its address; a name with special addresses only does not exist.
# Needs: probe
# Host: network
# Expect: warning private_address

failed=0
for i in 1 2 3 4 5 6; do
	./probe reach pinned.test rebind.wild.test || failed=1
done
./probe rebound "$LANE_SPECIAL" bait.wild.test || failed=1
exit $failed
