# Attack: Write to core_pattern, modprobe, binfmt_misc, and every other file of /proc/sys.
# Why it matters: The kernel runs the programs named there as root of the host.
# What must hold: No file below /proc/sys can be written.
# Needs: probe
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

[ -r /proc/sys/kernel/hostname ] || breach "control: /proc/sys cannot be read"
for name in kernel/core_pattern kernel/modprobe kernel/hotplug kernel/sysrq kernel/randomize_va_space fs/binfmt_misc/register vm/drop_caches \
	vm/overcommit_memory kernel/ns_last_pid net/ipv4/ip_forward user/max_user_namespaces; do
	(echo '|/workspace/probe' >/proc/sys/$name) 2>/dev/null && breach "$name was written"
done
./probe writable files /proc/sys | grep . && breach "these can be written"
true
exit $failed
