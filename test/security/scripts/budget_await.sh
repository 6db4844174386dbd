# Attack: Wait with epoll, a million times, for a change of the host's name, its domain or its swap files.
# Why it matters: The kernel has one queue of all who wait, and walks it for each name that a sandbox or the host sets: with 1,800,000 waits each
#   start of a sandbox took 0.3 s longer.
# What must hold: The files are the sandbox's own, or hidden, and cannot be waited for.
# Needs: probe
# Not on: gvisor (gVisor's own kernel has names of its own)
# Not on: docker (an engine cannot mount a file of the sandbox's own over the name, and many programs read it)
# Leaves: nothing

./probe await
