# Attack: Enter the kernel with int 0x80.
# Why it matters: A filter that compares numbers without the architecture lets every call through by its other number.
# What must hold: The process is killed.
# Needs: probe

breach() { echo "BREACH: $*"; failed=1; }
failed=0

./probe int80
status=$?
[ $status = 159 ] || breach "status $status, must be 159 (SIGSYS)"
exit $failed
