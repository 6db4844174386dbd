# Attack: Read all of the image, so that its files fill the limit, and take their room at once.
# Why it matters: What is only kept of files can go at any time. It must neither kill a program nor raise its limit.
# What must hold: Reading far more than the limit kills nothing; growing afterwards ends at the limit.
# Needs: probe
# Run: --memory 64m --timeout 5m
# Expect: phase completed if oom-process
# Expect: phase failed if oom-sandbox
# Expect: reason oom_killed if oom-sandbox
# Limits: memory
# Not on: docker (its limit is that of programs and files in memory together, which the run says)

breach() { echo "BREACH: $*"; failed=1; }
failed=0

much=100000000
[ "$LANE_TIER" = soak ] && much=150000000
read_all() { find /usr/lib /usr/lib/* /bin -maxdepth 1 -xdev -type f -size +500k -exec cat {} + 2>/dev/null | head -c $much | wc -c; }
[ "$(read_all)" -gt 500000 ] || breach "control: nothing was read"
echo still here
again=1
[ "$LANE_TIER" = soak ] && again="1 2"
for i in $again; do
	read_all >/tmp/said &
	./probe burst 64
	[ $? = 137 ] || breach "a burst while files are read was not killed"
	wait
done
exit $failed
