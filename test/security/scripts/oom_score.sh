# Attack: Have the kernel think that one is the last to be killed when memory is short.
# Why it matters: Then it kills the agent in one's place, or the daemon.
# What must hold: Nobody gets below the score of the agent.
# Not on: gvisor (its kernel kills no process; the host's knows the sandbox as one)
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
