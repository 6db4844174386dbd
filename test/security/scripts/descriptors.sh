# Attack: Open files without end, and raise the limit.
# Why it matters: All programs of the machine share the file table.
# What must hold: The program gets EMFILE at the limit, which cannot be raised.
# Needs: probe
# Run: --nofile 256

./probe descriptors 256
