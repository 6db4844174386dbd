# Attack: Compute in eight threads at once, against a limit on CPU time.
# Why it matters: A limit for each thread or process would allow eight times as much, and a check once a second twice that.
# What must hold: The run ends with cpu_time_exceeded, long before its timeout.
# Needs: probe
# Run: --cpu-time 500ms --timeout 300
# Expect: phase timed_out
# Expect: reason cpu_time_exceeded
# Limits: cpu_time
./probe spin 8
