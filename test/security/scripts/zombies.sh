# Attack: Leave thousands of orphans that end at once.
# Why it matters: Zombies that no process reaps fill the process table.
# What must hold: They are reaped, and no fork is refused.
# Needs: probe
# Run: --pids 64

case "$LANE_RUNTIME-$LANE_TIER" in
gvisor-test) ./probe zombies 80 ;; # births take their time there
gvisor-*) ./probe zombies 500 ;;
*-test) ./probe zombies 500 ;;
*) ./probe zombies 5000 ;;
esac
