//go:build linux

package process

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// defaultPath is searched if the command's environment has no PATH.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// LookPath finds a program as execvp(3) does, with the rights of the calling thread: a name without a slash is searched in PATH,
// whose relative and empty entries start at cwd. The error is ENOENT if there is none, and EACCES if those found are not
// executable.
func LookPath(name string, env []string, cwd string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil // the kernel resolves it, from cwd
	}
	list := defaultPath
	for _, v := range env {
		if rest, ok := strings.CutPrefix(v, "PATH="); ok {
			list = rest
			break
		}
	}
	missing := unix.ENOENT
	for _, dir := range filepath.SplitList(list) {
		path := filepath.Join(dir, name)
		if dir == "" || !strings.Contains(path, "/") {
			path = "./" + path
		}
		real := path
		if !filepath.IsAbs(real) {
			real = filepath.Join(cwd, real)
		}
		var st unix.Stat_t
		switch err := unix.Stat(real, &st); {
		case err == unix.EACCES:
			missing = unix.EACCES
		case err != nil:
		case st.Mode&unix.S_IFMT != unix.S_IFREG, unix.Faccessat(unix.AT_FDCWD, real, unix.X_OK, unix.AT_EACCESS) != nil:
			missing = unix.EACCES
		default:
			return path, nil
		}
	}
	return "", missing
}
