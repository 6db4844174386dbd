# Attack: Read what /proc shows of the host as a whole: locks, free memory by zone, pressure, open files, the boot id.
# Why it matters: These facts are a channel between tenants, and show two tenants that they share a host.
# What must hold: None of it can be read, and the boot id is the sandbox's own; the files that programs need exist.
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
