# Attack: Provide an image whose environment preloads a library, tunes Go's runtime, and has a PATH of 12 KiB.
# Why it matters: The same engine starts the agent, which is a Go program.
# What must hold: Programs see this environment, as with any image; the agent does not, and the requested program runs.
# Image: environment
# Host: agentenv

breach() { echo "BREACH: $*"; failed=1; }
failed=0

[ "$IMAGE_MARK" = belljar-image-mark ] || breach "control: the image's environment is not there"
[ "$HOME" = /workspace ] || [ "$HOME" = / ] || breach "HOME is $HOME"
cat /proc/1/environ 2>/dev/null | grep -q . && breach "the agent's environment can be read"
exit $failed
