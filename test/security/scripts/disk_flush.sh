# Attack: Make the kernel write all disks of the host, with sync and syncfs, again and again.
# Why it matters: All other programs then wait for the disk, and the sandbox is not charged for it.
# What must hold: The calls return success and write nothing; everything that a program can write to is memory.
# Needs: probe
# Leaves: nothing

./probe flush
failed=$?
rm -f flushed
exit $failed
