# Attack: Compute, and sleep at each moment at which a clock tick would look.
# Why it matters: Tick-based accounting charges the process that runs at the tick, so this program would pay nothing.
# What must hold: The run ends with cpu_time_exceeded, long before its timeout.
# Needs: probe
# Run: --cpu-time 500ms --timeout 300
# Expect: phase timed_out
# Expect: reason cpu_time_exceeded
# Limits: cpu_time

./probe dodge 4ms &
./probe dodge 10ms &
./probe dodge 1ms
