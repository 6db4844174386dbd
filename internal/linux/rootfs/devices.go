//go:build linux

package rootfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// OwnDevices is the folder of the device nodes of all sandboxes of a machine. Every use of the host's nodes would have to look at
// each lock and watch of a program on them. /dev is a file system in which devices can be opened, unlike /run.
const OwnDevices, hostDevices = "/dev/belljar", "/dev"

// Nodes returns a folder with the nodes of Devices: dir, in which it makes missing ones, or else the host's /dev. Only root of the
// machine can make nodes.
func Nodes(dir string) string {
	unix.Mkdir(dir, 0o755)
	unix.Chmod(dir, 0o755) // whatever the umask
	for _, name := range Devices() {
		var host, own unix.Stat_t
		path := dir + "/" + name
		if unix.Stat(hostDevices+"/"+name, &host) != nil {
			return hostDevices
		}
		const mode = unix.S_IFCHR | 0o666
		unix.Mknod(path, mode, int(host.Rdev)) // it may exist
		unix.Chmod(path, mode&^unix.S_IFMT)
		if unix.Lstat(path, &own) != nil || own.Mode != mode || own.Rdev != host.Rdev {
			return hostDevices
		}
	}
	null, err := os.OpenFile(dir+"/null", os.O_WRONLY, 0)
	if err != nil { // the file system has no devices
		return hostDevices
	}
	null.Close()
	return dir
}
