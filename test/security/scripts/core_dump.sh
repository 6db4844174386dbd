# Attack: Crash, and request a core dump.
# Why it matters: A core file, or a handler on the host, contains the memory of the program.
# What must hold: The limit is 0 and cannot be raised; no core file appears.
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

[ "$(ulimit -Hc)" = 0 ] || breach "the hard limit is $(ulimit -Hc)"
(ulimit -c unlimited) 2>/dev/null && breach "the limit was raised"
sh -c 'kill -SEGV $$'
ls core core.[0-9]* 2>/dev/null && breach "a core file"
true
exit $failed
