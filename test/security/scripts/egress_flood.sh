# Attack: Open 2,000 connections (600 from gVisor in make test) to an allowed host that say nothing, half a request, or end one side.
# Why it matters: Each could keep a descriptor of the host.
# What must hold: The host's descriptors are as before, and the next connection works.
# Needs: probe
# Host: network

failed=0
./probe settle || failed=1
each=500
case "$LANE_RUNTIME-$LANE_TIER" in gvisor-test) each=150 ;; esac # connections take their time there
for i in 1 2 3 4; do
	./probe crowd $each >crowd.$i || touch failed &
done
wait
cat crowd.*
[ ! -e failed ] || failed=1
./probe settle || failed=1
./probe reach api.test || failed=1
exit $failed
