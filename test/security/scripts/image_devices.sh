# Attack: Provide an image in which /dev/null, the console, the terminals and the shared memory are links, and a disk is a file.
# Why it matters: Masks are bind mounts of /dev/null: if that is a link, another file is bound in its place (CVE-2025-31133,
#   CVE-2025-52565).
# What must hold: The devices are the sandbox's own, masked files stay masked, and there is no disk.
# Image: device-links
# Host: elsewhere
# Needs: probe

breach() { echo "BREACH: $*"; failed=1; }
failed=0

./probe devices /workspace /tmp || failed=1
for name in null zero urandom; do
	[ -c /dev/$name ] && [ ! -L /dev/$name ] || breach "/dev/$name is no device"
done
[ -e /etc/belljar-disk ] && [ -b /etc/belljar-disk ] && breach "there is a disk"
for name in kcore keys kallsyms sysrq-trigger; do
	[ -z "$(head -c 64 /proc/$name 2>/dev/null | tr -d '\0')" ] || breach "/proc/$name can be read"
done
setsid ./probe terminal || failed=1
echo x >/dev/shm/file || breach "/dev/shm cannot be written to"
[ ! -e /etc/file ] || breach "/dev/shm is /etc"
exit $failed
