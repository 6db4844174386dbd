# Attack: Search for a secret outside of its file: environments, command lines, memory and files of all processes, other folders.
# Why it matters: A copy of a secret is not protected like its file, and may be inherited.
# What must hold: The secret is in its file alone, which only the program's user can read.
# Host: secret
# Leaves: nothing

breach() { echo "BREACH: $*"; failed=1; }
failed=0

s=/run/secrets/API_TOKEN
[ -s $s ] || breach "control: there is no secret"
[ "$(stat -c %a $s)" = 400 ] || breach "its mode is $(stat -c %a $s)"
[ "$(stat -c %a /run/secrets)" = 700 ] || breach "the folder's mode is $(stat -c %a /run/secrets)"
[ "$(stat -c %u $s)" = "$(id -u)" ] || breach "it is another user's"
(echo x >$s) 2>/dev/null && [ "$(id -u)" != 0 ] && breach "it can be changed"
cp $s /tmp/pattern
echo control >/tmp/control && cat $s >>/tmp/control
grep -qF -f $s /tmp/control || breach "control: grep does not find it"
grep -lF -f $s /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep . && breach "a process shows it"
# The address 0 is unmapped in every process, so the open alone decides.
{ true <"/proc/$$/mem"; } 2>/dev/null || breach "control: a process cannot open its own memory"
for process in /proc/[0-9]*; do
	[ "$(cat "$process/comm" 2>/dev/null)" = sh ] && continue # this shell and its parent are the program's own
	{ true <"$process/mem"; } 2>/dev/null && breach "the memory of $process can be read"
done
rm /tmp/pattern /tmp/control
grep -rlF -f $s /tmp /dev/shm /workspace /etc 2>/dev/null | grep . && breach "a file has it"
[ "$(ls -A /run/secrets)" = API_TOKEN ] || breach "there is more: $(ls -A /run/secrets)"
exit $failed
