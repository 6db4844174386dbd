# Attack: Leave such processes, and never end.
# Why it matters: The timeout must reach processes that have left the process group.
# What must hold: The run times out, and no process survives.
# Needs: probe
# Run: --timeout 1
# Expect: phase timed_out
# Expect: reason execution_timeout

for n in 1 2 3 4 5; do ./probe survive; done
trap '' TERM
(trap '' TERM HUP INT; setsid sleep 1000 >/dev/null 2>&1 </dev/null &)
while :; do sleep 1000; done
