# Attack: Provide an image with a program at the agent's path.
# Why it matters: If that program ran as PID 1, the image would decide what the host believes.
# What must hold: The agent is Belljar's own, and the run is like any other.
# Image: agent
# Needs: probe

breach() { echo "BREACH: $*"; failed=1; }
failed=0

case "$(sed -n 's/^Name:[[:space:]]*//p' /proc/1/status)" in *belljar*) ;; *) breach "PID 1 is $(sed -n 's/^Name:[[:space:]]*//p' /proc/1/status)" ;; esac
./probe agent || failed=1
./probe initexe || failed=1
exit $failed
