# Attack: Compute, and sleep whenever a clock that counts in ticks would look.
# Why it matters: Such a clock charges whoever runs at the tick, and nothing to a program that never does.
# What must hold: The run ends as one that used up its CPU time, long before its timeout.
# Needs: probe
# Run: --cpu-time 500ms --timeout 300
# Expect: phase timed_out
# Expect: reason cpu_time_exceeded
# Limits: cpu_time

./probe dodge 4ms &
./probe dodge 10ms &
./probe dodge 1ms
