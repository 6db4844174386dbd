# Attack: Raise each limit that a process has of its own.
# Why it matters: A limit that whoever it limits can lift is none.
# What must hold: A hard limit goes down, and never up again.
# Needs: probe
# Leaves: nothing
./probe limits
