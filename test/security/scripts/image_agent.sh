# Attack: Bring an image with a program where the agent is.
# Why it matters: Who runs it as PID 1 lets the image decide what the host believes.
# What must hold: The agent is Belljar's own, and the run is as any other.
# Image: agent
# Needs: probe

breach() { echo "BREACH: $*"; failed=1; }
failed=0

case "$(sed -n 's/^Name:[[:space:]]*//p' /proc/1/status)" in *belljar*) ;; *) breach "PID 1 is $(sed -n 's/^Name:[[:space:]]*//p' /proc/1/status)" ;; esac
./probe agent || failed=1
./probe initexe || failed=1
exit $failed
