# Attack: Send every signal to PID 1.
# Why it matters: If PID 1 dies or stops, the run hangs or reports a false result.
# What must hold: PID 1 lives, and the run ends as usual.
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

for signal in $(seq 1 64); do
	kill -$signal 1 2>/dev/null
done
[ -d /proc/1 ] || breach "PID 1 is gone"
case "$(sed -n 's/^State:[[:space:]]*//p' /proc/1/status)" in T* | Z*) breach "PID 1 is stopped" ;; esac
true
exit $failed
