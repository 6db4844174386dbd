# Attack: Search for another sandbox: its files, its processes, its shared memory.
# Why it matters: Neighbours do not trust each other.
# What must hold: None of it is visible.
# Host: neighbour
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

echo control >belljar-bait
find / -path '/usr/*/*' -prune -o -name '*belljar-bait*' -print >found 2>/dev/null
grep -qx "$PWD/belljar-bait" found || breach "control: the search finds nothing"
grep -vx "$PWD/belljar-bait" found && breach "a file of the neighbour was found"
rm belljar-bait found
grep -l '[b]elljar-bait' /proc/[0-9]*/cmdline 2>/dev/null | grep -v "/proc/$$/" | grep . && breach "a process of the neighbour was found"
[ ! -e /proc/sysvipc/shm ] || [ "$(wc -l </proc/sysvipc/shm)" = 1 ] || breach "shared memory of another sandbox"
count=0
for process in /proc/[0-9]*; do count=$((count + 1)); done
[ $count -le 8 ] || breach "$count processes"
exit $failed
