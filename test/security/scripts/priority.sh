# Attack: Take a higher priority than others: nice -20, the real-time classes of processors and disks, an early deadline.
# Why it matters: A real-time loop of one program stops a processor for all other programs of the host.
# What must hold: Each is refused; lowering the own priority works.
# Needs: probe
# Leaves: nothing
./probe priority
