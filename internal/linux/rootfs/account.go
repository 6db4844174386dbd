//go:build linux

package rootfs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Files of /etc that every root has, whatever an image has in their place.
const (
	hosts    = "127.0.0.1 localhost " + Hostname + "\n::1 localhost\n"
	nsswitch = "passwd: files\ngroup: files\nhosts: files dns\n"
	// The agent answers at this address while the host relays. Otherwise glibc fails immediately; musl waits for the
	// timeout.
	resolvConf = "nameserver 127.0.0.53\noptions timeout:3 attempts:2\n"
)

// Hostname is the host name of every sandbox.
const Hostname = "belljar"

// userName is the user's name if the image has none.
const userName = "sandbox"

// Accounts and groups that programs expect.
const (
	rootUser  = "root:x:0:0:root:/:/usr/sbin/nologin\n"
	nobody    = "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
	rootGroup = "root:x:0:\ntty:x:5:\n"
	nogroup   = "nogroup:x:65534:\n"
)

func passwdLine(u User) string {
	return fmt.Sprintf("%s:x:%d:%d:%s:/workspace:/bin/sh\n", userName, u.UID, u.GID, userName)
}

func groupLine(u User) string { return fmt.Sprintf("%s:x:%d:\n", userName, u.GID) }

func passwd(u User) string { return withLine(rootUser+nobody, u.UID, passwdLine(u)) }

func group(u User) string { return withLine(rootGroup+nogroup, u.GID, groupLine(u)) }

// withLine returns an account or group file in which an id has a name: unchanged if it has one, and with line
// appended if neither id nor name is taken.
func withLine(text string, id int, line string) string {
	for l := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(l, "\n"), ":")
		if len(fields) > 2 && (fields[2] == strconv.Itoa(id) || fields[0] == userName) {
			return text
		}
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + line
}

// withHome returns an account file in which the home of an id is the workspace: programs that ignore HOME, such as Java, write there.
func withHome(text string, id int) string {
	const uid, home, all = 2, 5, 7
	lines := slices.Collect(strings.Lines(text))
	for i, l := range lines {
		fields := strings.Split(l, ":")
		if len(fields) == all && fields[uid] == strconv.Itoa(id) {
			fields[home] = "/workspace"
			lines[i] = strings.Join(fields, ":")
			break // the first line counts
		}
	}
	return strings.Join(lines, "")
}

// written returns Belljar's files of /etc for an image that has none.
func written(u User) []Part {
	return []Part{
		{Name: "etc/passwd", Kind: Text, Text: passwd(u)},
		{Name: "etc/group", Kind: Text, Text: group(u)},
		{Name: "etc/hostname", Kind: Text, Text: Hostname + "\n"},
		{Name: "etc/hosts", Kind: Text, Text: hosts},
		{Name: "etc/resolv.conf", Kind: Text, Text: resolvConf},
		{Name: "etc/nsswitch.conf", Kind: Text, Text: nsswitch},
	}
}
