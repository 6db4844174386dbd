# Attack: Push characters into a terminal with TIOCSTI and TIOCLINUX.
# Why it matters: On a shared terminal they are typed into the host's shell (CVE-2017-5226).
# What must hold: There is no controlling terminal; the ioctls are refused, with rubbish above bit 31 too.
# Needs: probe
# Leaves: nothing

setsid ./probe terminal
