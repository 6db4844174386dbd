# Attack: Watch one file of the host with as many inotify instances as there can be.
# Why it matters: Each use of the file, also on the host, adds an event to each instance.
# What must hold: At most 32 instances exist in a sandbox.
# Needs: probe
# Leaves: nothing
# Not on: gvisor (gVisor's own kernel has watches of its own)
# Not on: docker (an engine has no such limit; the files are those of the image)

./probe marks 32
