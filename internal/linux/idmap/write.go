//go:build linux

package idmap

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/installed"
)

// Write maps the range for a process that is alone in a new user namespace, a child of ours that waits for it.
func (r *Range) Write(pid int) error {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	switch r.Mode {
	case ModeSub:
		// Two programs have to run, so run them concurrently.
		users := make(chan error, 1)
		go func() { users <- runHelper("newuidmap", pid, r.UIDs) }()
		groups := runHelper("newgidmap", pid, r.GIDs)
		if err := <-users; err != nil {
			return err
		}
		return groups
	case ModeSingle:
		// An ordinary user may map a group only after the namespace has denied setgroups.
		if err := writeFile(filepath.Join(proc, "setgroups"), "deny"); err != nil {
			return err
		}
	}
	if err := writeFile(filepath.Join(proc, "uid_map"), table(r.UIDs)); err != nil {
		return err
	}
	return writeFile(filepath.Join(proc, "gid_map"), table(r.GIDs))
}

// writeFile uses a single write, which these files require.
func writeFile(name, text string) error {
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("map user ids: open %s: %w", name, err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte(text)); err != nil {
		return fmt.Errorf("map user ids: write %s: %w", name, err)
	}
	return nil
}

func table(extents []Extent) string {
	var b []byte
	for _, e := range extents {
		for _, n := range []int{e.Inside, e.Outside, e.Count} {
			b = append(strconv.AppendInt(b, int64(n), 10), ' ')
		}
		b = append(b, '\n')
	}
	return string(b)
}

func runHelper(name string, pid int, extents []Extent) error {
	args := []string{strconv.Itoa(pid)}
	for _, e := range extents {
		args = append(args, strconv.Itoa(e.Inside), strconv.Itoa(e.Outside), strconv.Itoa(e.Count))
	}
	path, err := installed.Find("", name)
	if err != nil {
		return fmt.Errorf("map user ids: %w", err)
	}
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("map user ids: %s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}
