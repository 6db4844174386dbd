# Attack: Provide an image whose working folder is /proc/self/fd/7.
# Why it matters: A runtime that starts a program there, with a folder of the host open under that number, starts it outside the root
#   (CVE-2024-21626).
# What must hold: A program begins in a folder of the sandbox, or the run is refused; no folder is above the root.
# Image: working-folder
breach() { echo "BREACH: $*"; failed=1; }
failed=0
here=$(pwd -P 2>/dev/null) || breach "the working folder has no name"
case "$here" in /*) ;; *) breach "the working folder is $here" ;; esac
case "$(readlink /proc/self/cwd)" in *unreachable* | "") breach "the working folder is outside the root" ;; esac
cd ../../../../../../.. && [ "$(stat -c %d:%i .)" = "$(stat -c %d:%i /)" ] || breach "above the working folder is another root"
exit $failed
