# Attack: Print 128 MiB to both streams.
# Why it matters: It fills the log, the disk, or the memory of its reader.
# What must hold: The log is cut at its cap and marked as truncated, and the run completes.
# Needs: probe
# Expect: truncated

./probe flood 64
