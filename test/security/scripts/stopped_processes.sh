# Attack: Stop every process with SIGSTOP, and reach the timeout.
# Why it matters: A stopped process does not handle TERM.
# What must hold: KILL reaches each process, and none survives.
# Run: --timeout 1
# Expect: phase timed_out
# Expect: reason execution_timeout

trap '' HUP # which some kernels send to who is stopped and alone
for n in 1 2 3; do (kill -STOP $(exec sh -c 'echo $PPID')) & done
while :; do kill -STOP $$; done
