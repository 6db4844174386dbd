# Attack: List the descriptors that a new program finds.
# Why it matters: One leaked folder was enough for CVE-2024-21626.
# What must hold: Three streams and nothing else; none leads to a folder.
# Needs: probe
# Leaves: nothing

./probe fds
