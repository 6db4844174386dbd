# Attack: Raise each resource limit of a process.
# Why it matters: A limit that the limited program can lift has no effect.
# What must hold: A hard limit can be lowered and never raised.
# Needs: probe
# Leaves: nothing
./probe limits
