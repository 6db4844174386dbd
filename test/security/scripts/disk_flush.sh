# Attack: Make the kernel write and flush all disks of the host again and again, with sync, syncfs, and fsync, msync and others of files
#   of the image; drop its cache of files that other programs read.
# Why it matters: All other programs then wait for the disk, and the sandbox is not charged for it.
# What must hold: The calls return success, write nothing and flush no disk; everything that a program can write to is memory.
# Needs: probe
# Host: flushes
# Leaves: nothing

./probe flush
failed=$?
rm -f flushed
exit $failed
