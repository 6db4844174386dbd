# Attack: Open files without end, and raise the limit.
# Why it matters: The file table belongs to the whole machine.
# What must hold: EMFILE at the limit, which cannot be raised.
# Needs: probe
# Run: --nofile 256

./probe descriptors 256
