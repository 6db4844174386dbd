# Attack: Take a priority above everybody: nice -20, the real-time classes of processors and disks, an early deadline.
# Why it matters: A real-time loop of one program stops a processor for all others of the host.
# What must hold: All refused; being nicer works.
# Needs: probe
# Leaves: nothing
./probe priority
