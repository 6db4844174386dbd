# Attack: Enter the kernel with int 0x80.
# Why it matters: A filter that compares numbers without the architecture accepts every call under its other number.
# What must hold: The kernel kills the process, or it has no such entry.
# Needs: probe
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

./probe int80
status=$?
case "$LANE_RUNTIME" in
gvisor) [ $status = 0 ] || [ $status = 159 ] || breach "status $status, must be 0 (ENOSYS) or 159 (SIGSYS)" ;;
*) [ $status = 159 ] || breach "status $status, must be 159 (SIGSYS)" ;;
esac
exit $failed
