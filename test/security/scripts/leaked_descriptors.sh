# Attack: List the open descriptors of a new program.
# Why it matters: One leaked folder was enough for CVE-2024-21626.
# What must hold: Only the three standard streams are open, and none leads to a folder.
# Needs: probe
# Leaves: nothing

./probe fds
