# Attack: Open 10,000 connections (2,000 in make test, 600 from gVisor) to an allowed host that send nothing, half a request, or close one
#   side.
# Why it matters: Each could hold a descriptor of the host.
# What must hold: The host's descriptors return to their earlier number, and the next connection works.
# Needs: probe
# Run: --nofile 4096
# Host: network

failed=0
./probe settle || failed=1
each=500
case "$LANE_RUNTIME-$LANE_TIER" in
gvisor-test) each=150 ;; # connections take their time there
*-soak) each=2500 ;;
esac
for i in 1 2 3 4; do
	./probe crowd $each >crowd.$i || touch failed &
done
wait
cat crowd.*
[ ! -e failed ] || failed=1
./probe settle || failed=1
./probe reach api.test || failed=1
exit $failed
