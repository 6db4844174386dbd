# Attack: Have the disks of the host written out, with sync and syncfs, again and again.
# Why it matters: All that others have written then waits for the disk, and none of it is charged to the sandbox.
# What must hold: The calls say that all is written, and write nothing; all that a program can write to is memory.
# Needs: probe
# Leaves: nothing

./probe flush
failed=$?
rm -f flushed
exit $failed
