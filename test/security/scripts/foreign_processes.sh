# Attack: Signal every process by its number, and every group of processes, and take hold of them by pidfd.
# Why it matters: Numbers of processes are all that a signal needs; neighbours and the daemon have some, too.
# What must hold: There is nobody but who /proc shows, and they are the sandbox's own.
# Needs: probe
# Host: neighbour
# Leaves: nothing
case "$LANE_RUNTIME-$LANE_TIER" in
gvisor-test) ./probe foreign 4096 ;; # each is a question to its own kernel, which numbers from 1
*) ./probe foreign 32768 ;;
esac
