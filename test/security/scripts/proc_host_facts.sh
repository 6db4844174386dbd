# Attack: Read what /proc tells of the host as a whole: locks, free memory by zone, pressure, open files, the boot.
# Why it matters: It is a channel between tenants, and tells two of them that they share a host.
# What must hold: Nothing of it can be read, and the boot is the sandbox's own; what programs need is there.
# Host: boot
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

for name in locks buddyinfo zoneinfo pagetypeinfo crypto sys/fs/aio-nr sys/fs/file-nr sys/fs/inode-nr pressure/cpu pressure/memory pressure/io; do
	[ -z "$(head -c 64 /proc/$name 2>/dev/null)" ] || [ "$LANE_RUNTIME" = gvisor ] || breach "/proc/$name can be read"
done
[ -n "$LANE_BOOT" ] || breach "control: the boot of the host is unknown"
grep -q "$LANE_BOOT" /proc/sys/kernel/random/boot_id 2>/dev/null && breach "the boot of the host"
for name in stat uptime loadavg meminfo cpuinfo version; do
	[ -n "$(head -c 16 /proc/$name)" ] || breach "control: /proc/$name"
done
exit $failed
