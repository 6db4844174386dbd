# Attack: Compute in children: some leave the process group and outlive their parent, some end at once.
# Why it matters: A limit that counts the first process only, or living processes only, misses all of this time.
# What must hold: The run is charged for all of it and ends with cpu_time_exceeded; no process survives.
# Run: --cpu-time 500ms --timeout 300
# Expect: phase timed_out
# Expect: reason cpu_time_exceeded
# Limits: cpu_time

trap '' TERM
for n in 1 2; do (setsid sh -c "trap '' TERM HUP; sleep 0.1; i=0; while [ \$i -lt 20000 ]; do i=\$((i+1)); done" &); done
while :; do sh -c 'i=0; while [ $i -lt 200 ]; do i=$((i+1)); done'; done
