# Attack: Make the kernel prefer other processes when it is out of memory.
# Why it matters: It would then kill the agent or the server in the program's place.
# What must hold: No process can lower its score below the agent's.
# Not on: gvisor (gVisor's own kernel kills no process; for the host's kernel the sandbox is one process)
# Leaves: nothing
breach() { echo "BREACH: $*"; failed=1; }
failed=0
echo 900 >/proc/self/oom_score_adj || breach "control: the score cannot be raised"
agent=$(cat /proc/1/oom_score_adj 2>/dev/null) || agent=0
for score in -1000 -999 -500 -1; do
	(echo $score >/proc/self/oom_score_adj) 2>/dev/null && [ $score -lt "$agent" ] && breach "score $score, and the agent has $agent"
done
(echo $((agent - 1)) >/proc/self/oom_score_adj) 2>/dev/null && breach "below the agent"
exit $failed
