# Attack: Push characters into a terminal with TIOCSTI and TIOCLINUX.
# Why it matters: On a shared terminal these characters are typed into the host's shell (CVE-2017-5226).
# What must hold: There is no controlling terminal; the ioctls are refused, also with random bits above bit 31.
# Needs: probe
# Leaves: nothing

setsid ./probe terminal
