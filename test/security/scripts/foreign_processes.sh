# Attack: Signal every process by its number, and every process group, and open them by pidfd.
# Why it matters: A signal needs only a process number; neighbours and the server have numbers, too.
# What must hold: Only the sandbox's own processes exist, and /proc lists all of them.
# Needs: probe
# Host: neighbour
# Leaves: nothing
case "$LANE_RUNTIME-$LANE_TIER" in
gvisor-test) ./probe foreign 4096 ;; # each is a question to its own kernel, which numbers from 1
*) ./probe foreign 32768 ;;
esac
