# Attack: Read all of the image until the page cache fills the limit, then allocate as much.
# Why it matters: The kernel can drop cached pages at any time. They must neither kill a program nor raise its limit.
# What must hold: Reading far more than the limit kills no program; allocating afterwards ends at the limit.
# Needs: probe
# Run: --memory 64m --timeout 5m
# Expect: phase completed if oom-process
# Expect: phase failed if oom-sandbox
# Expect: reason oom_killed if oom-sandbox
# Limits: memory
# Not on: docker (one limit covers programs and files in memory; the run has a warning)

breach() { echo "BREACH: $*"; failed=1; }
failed=0

much=100000000
[ "$LANE_TIER" = soak ] && much=150000000
read_all() { find /usr/lib /usr/lib/* /bin -maxdepth 1 -xdev -type f -size +500k -exec cat {} + 2>/dev/null | head -c $much | wc -c; }
[ "$(read_all)" -gt 500000 ] || breach "control: nothing was read"
echo still here
again=1
[ "$LANE_TIER" = soak ] && again="1 2"
# While the burst ends, the kernel may kill a second process. It must not be this shell.
expendable() { echo 1000 >/proc/self/oom_score_adj; }
for i in $again; do
	{ expendable; read_all; } >/tmp/said &
	(expendable; exec ./probe burst 64)
	[ $? = 137 ] || breach "a burst while files are read was not killed"
	wait
done
exit $failed
