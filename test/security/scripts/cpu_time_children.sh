# Attack: Compute in children: some that leave the process group and outlive their parent, some that end at once.
# Why it matters: A limit of the first process, or of those that live, misses all of it.
# What must hold: The time of all is the run's; it ends as one that used up its CPU time, and nothing lives.
# Run: --cpu-time 500ms --timeout 300
# Expect: phase timed_out
# Expect: reason cpu_time_exceeded
# Limits: cpu_time

trap '' TERM
for n in 1 2; do (setsid sh -c "trap '' TERM HUP; sleep 0.1; i=0; while [ \$i -lt 20000 ]; do i=\$((i+1)); done" &); done
while :; do sh -c 'i=0; while [ $i -lt 200 ]; do i=$((i+1)); done'; done
