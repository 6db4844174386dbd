# Attack: Bring an image whose environment preloads a library, tunes Go's runtime, and has a PATH of 60 KiB.
# Why it matters: The agent is started by the same engine, and is a Go program.
# What must hold: Programs see it, as with any image; the agent does not, and what was asked for is run.
# Image: environment
# Host: agentenv

breach() { echo "BREACH: $*"; failed=1; }
failed=0

[ "$IMAGE_MARK" = belljar-image-mark ] || breach "control: the image's environment is not there"
[ "$HOME" = /workspace ] || [ "$HOME" = / ] || breach "HOME is $HOME"
cat /proc/1/environ 2>/dev/null | grep -q . && breach "the agent's environment can be read"
exit $failed
