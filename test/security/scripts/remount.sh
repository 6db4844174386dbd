# Attack: Make every mount writable, remove it, bind it elsewhere.
# Why it matters: A root that root inside can remount is not read-only (CVE-2026-46695).
# What must hold: No mount changes, by any interface.
# Needs: probe
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

./probe remount || failed=1
(: >/usr/bin/belljar-was-here) 2>/dev/null && breach "/usr is writable"
true
exit $failed
