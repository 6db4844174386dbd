package image

import (
	"bufio"
	"errors"
	"github.com/belljar/belljar/internal/image/fault"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Limits of the lists of users in images.
const (
	mostAccounts = 4 << 20 // bytes of /etc/passwd and of /etc/group that are read
	mostID       = 65534   // ids of a sandbox's users and groups have 16 bits, and the last one means no change
)

// account is a line of a passwd or group file: a name and the numbers after its password.
type account struct {
	name string
	ids  []int
}

// resolveUser finds the ids of an image's user in the image's own files. Root, and an empty user, are 0: Belljar's own user.
// Numbers need no entry.
func resolveUser(dir, user string) (uid, gid int, err error) {
	name, group, grouped := strings.Cut(user, ":")
	if name == "" || name == "root" {
		return 0, 0, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, 0, fault.Wrap("look for a user", err)
	}
	defer root.Close()
	number, isNumber := id(name)
	if isNumber && number == 0 {
		return 0, 0, nil
	}
	found, err := findAccount(root, "etc/passwd", name, number, isNumber)
	switch {
	case err != nil:
		return 0, 0, err
	case found != nil && len(found.ids) > 0:
		uid = found.ids[0]
		if len(found.ids) > 1 {
			gid = found.ids[1]
		}
	case isNumber:
		uid = number
	default:
		return 0, 0, fault.Invalid("user", "its user %q is not in its /etc/passwd", fault.Printable(name))
	}
	if grouped && group != "" {
		if gid, err = resolveGroup(root, group); err != nil {
			return 0, 0, err
		}
	}
	if uid > mostID || gid > mostID {
		return 0, 0, fault.Invalid("user", "its user %q has the ids %d:%d, and a sandbox has them up to %d", fault.Printable(user), uid, gid, mostID)
	}
	if uid == 0 {
		return 0, 0, nil
	}
	return uid, gid, nil
}

func resolveGroup(root *os.Root, group string) (int, error) {
	number, isNumber := id(group)
	if isNumber {
		return number, nil
	}
	if group == "root" {
		return 0, nil
	}
	found, err := findAccount(root, "etc/group", group, 0, false)
	switch {
	case err != nil:
		return 0, err
	case found == nil || len(found.ids) == 0:
		return 0, fault.Invalid("user", "its group %q is not in its /etc/group", fault.Printable(group))
	}
	return found.ids[0], nil
}

// id parses a user's or group's number.
func id(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil
}

// findAccount looks for a name, or for a number if byNumber is set. It returns nil if there is none, and follows no link out
// of the image.
func findAccount(root *os.Root, file, name string, number int, byNumber bool) (*account, error) {
	info, err := root.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil // an image without users, or with a link that leads nowhere in it
	}
	f, err := root.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap("look for a user", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, mostAccounts))
	lines.Buffer(nil, mostAccounts)
	for lines.Scan() {
		a, ok := parseAccount(lines.Text())
		if ok && (a.name == name || byNumber && len(a.ids) > 0 && a.ids[0] == number) {
			return &a, nil
		}
	}
	return nil, nil
}

func parseAccount(line string) (a account, ok bool) {
	fields := strings.Split(line, ":")
	if len(fields) < 3 || fields[0] == "" {
		return a, false
	}
	a.name = fields[0]
	for _, f := range fields[2:min(4, len(fields))] {
		n, isNumber := id(f)
		if !isNumber {
			break
		}
		a.ids = append(a.ids, n)
	}
	return a, true
}
