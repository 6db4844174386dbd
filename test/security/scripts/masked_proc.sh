# Attack: Read and write the parts of /proc that belong to the machine.
# Why it matters: They reveal facts about the kernel and other programs, and some control the kernel.
# What must hold: They are empty, absent or refused.
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

for name in kcore keys key-users kmsg kallsyms kpagecount kpageflags timer_list sched_debug vmallocinfo slabinfo modules iomem ioports \
	interrupts diskstats partitions sysrq-trigger config.gz; do
	{ true </proc/$name; } 2>/dev/null && [ -n "$(head -c 64 /proc/$name 2>/dev/null | tr -d '\0')" ] && breach "/proc/$name can be read"
	{ echo h >/proc/$name; } 2>/dev/null && [ ! -c /proc/$name ] && breach "/proc/$name can be written"
done
for name in acpi scsi bus fs irq driver tty asound; do
	[ -z "$(ls -A /proc/$name 2>/dev/null)" ] || breach "/proc/$name is not empty"
done
[ -s /proc/self/status ] || grep -q Name /proc/self/status || breach "control: /proc does not work"
exit $failed
