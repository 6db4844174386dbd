//go:build linux

package vm

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// A sandbox needs pivot_root, which the first root file system does not support. So its only program moves the guest to a tmpfs
// and continues there.
const initScript = `#!/guest/usr/bin/busybox sh
b=/guest/usr/bin/busybox
$b mkdir /new
$b mount -t tmpfs -o mode=755 tmpfs /new
$b cp -a /guest/. /new/
exec $b switch_root /new /usr/bin/busybox sh /guest.sh
`

const guestScript = `/usr/bin/busybox --install -s /usr/bin
export PATH=/usr/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
ip link set lo up
ulimit -Hn 524288 # as systemd does; the kernel's default is 4096
echo 1 > /proc/sys/kernel/printk
ln -s /proc/self/fd /dev/fd
stty -opost -echo < /dev/console
`

// writeGuest writes the machine's file system: busybox, the commands' programs, files, and the script that runs them.
func writeGuest(w io.Writer, s Spec, busybox, nonce string) error {
	a := newArchive(w)
	a.folder("dev", 0o755)
	a.file("init", 0o755, initScript)
	for _, dir := range []string{"proc", "sys", "dev", "run", "var", "root", "mnt", "test", "usr/lib", "usr/lib64", "usr/sbin"} {
		a.folder("guest/"+dir, 0o755)
	}
	a.folder("guest/tmp", 0o1777)
	for _, dir := range []string{"lib", "lib64", "sbin", "bin"} {
		a.link("guest/"+dir, "usr/"+dir)
	}
	a.copy("guest/usr/bin/busybox", busybox)
	a.file("guest/etc/passwd", 0o644, "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n")
	a.file("guest/etc/group", 0o644, "root:x:0:\nada:x:1000:\nnogroup:x:65534:\n")
	a.file("guest/etc/subuid", 0o644, "ada:100000:65536\n")
	a.file("guest/etc/subgid", 0o644, "ada:100000:65536\n")
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		a.copy("guest/"+name, s.Files[name])
	}
	var script strings.Builder
	script.WriteString(guestScript)
	for i, c := range s.Commands {
		a.copy(fmt.Sprintf("guest/test/%d/%s", i, c.name()), c.Program)
		fmt.Fprintf(&script, "echo '%s start %d'\n(cd /test/%d && exec env %s ./%s %s) < /dev/null 2>&1\nprintf '\\n%s exit %d %%d\\n' $?\n",
			nonce, i, i, quote(c.Env), c.name(), quote(c.Args), nonce, i)
	}
	script.WriteString("reboot -f\n")
	a.file("guest/guest.sh", 0o755, script.String())
	return a.close()
}

// quote returns words quoted for a shell.
func quote(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
