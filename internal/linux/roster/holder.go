//go:build linux

package roster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
)

// Holder is a process that has an entry's lock open.
type Holder struct {
	Pid int
	// First means that this is the entry's own process, before or after its execve: the first of a pid namespace. Others
	// are its creators.
	First bool
}

// Program describes the program of a roster's processes.
type Program struct {
	// Prefix is the beginning of the link to the executable, e.g. /memfd:NAME.
	Prefix string
	// LockIn returns the lock that a process's arguments name, in the form of [Inode.String]; "" if they name none. Such a
	// process shows its descriptors to root only.
	LockIn func(args []string) string
}

// Inode identifies a file.
type Inode struct{ Dev, Ino uint64 }

// String returns the form in which a process names its lock.
func (i Inode) String() string { return fmt.Sprintf("%d:%d", i.Dev, i.Ino) }

// InodeOf returns the inode of an open file.
func InodeOf(f *os.File) (Inode, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return Inode{}, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	return Inode{uint64(st.Dev), st.Ino}, nil
}

// Holders finds the processes that have an entry's lock open, by looking at every process. It leaves out a process that
// has other locks open as well: a creator is just forking it.
func (r *Roster) Holders(name string, p Program) ([]Holder, error) {
	locks, err := r.locks()
	if err != nil {
		return nil, err
	}
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil, fmt.Errorf("look for processes: %w", err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("look for processes: %w", err)
	}
	var found []Holder
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join("/proc", e.Name())
		open, files := p.openLocks(dir, locks)
		if !open[name] {
			continue
		}
		namespace, err := os.Readlink(filepath.Join(dir, "ns/pid"))
		if err != nil {
			continue // the process has ended
		}
		first := namespace != own && p.isFirst(pid, dir)
		if first && files > 1 || namespace != own && !first && forked(pid) {
			continue // as above; or another process of a birth, which ends with the first
		}
		found = append(found, Holder{Pid: pid, First: first})
	}
	return found, nil
}

// locks returns the existing lock files. A file has two names while its entry is renamed.
func (r *Roster) locks() (map[Inode][]string, error) {
	names, err := r.List()
	if err != nil {
		return nil, err
	}
	locks := map[Inode][]string{}
	for _, name := range names {
		var st unix.Stat_t
		if unix.Lstat(r.Lock(name), &st) == nil {
			at := Inode{uint64(st.Dev), st.Ino}
			locks[at] = append(locks[at], name)
		}
	}
	return locks, nil
}

// openLocks returns the entries whose locks a process has open, and the number of these files, as far as they are visible
// to us.
func (p Program) openLocks(dir string, locks map[Inode][]string) (open map[string]bool, files int) {
	open, seen := map[string]bool{}, map[Inode]bool{}
	found := func(at Inode) {
		if len(locks[at]) > 0 {
			seen[at] = true
		}
		for _, name := range locks[at] {
			open[name] = true
		}
	}
	names, err := os.ReadDir(filepath.Join(dir, "fd"))
	if errors.Is(err, fs.ErrPermission) {
		if at, ok := p.lockInCommandLine(dir, locks); ok {
			found(at)
		}
		return open, len(seen)
	}
	for _, name := range names {
		var st unix.Stat_t
		if unix.Stat(filepath.Join(dir, "fd", name.Name()), &st) != nil {
			continue
		}
		found(Inode{uint64(st.Dev), st.Ino})
	}
	return open, len(seen)
}

func (p Program) lockInCommandLine(dir string, locks map[Inode][]string) (Inode, bool) {
	text, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || p.LockIn == nil {
		return Inode{}, false
	}
	path := p.LockIn(strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"))
	for at := range locks {
		if at.String() == path {
			return at, true
		}
	}
	return Inode{}, false
}

// isFirst reports whether a process of another pid namespace is an entry's own process: its pid there is 1, and it is
// still a fork or has executed the program. A server in a container, which may be number 1 there, is neither.
func (p Program) isFirst(pid int, dir string) bool {
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			fields := strings.Fields(ids)
			if len(fields) == 0 || fields[len(fields)-1] != "1" {
				return false
			}
		}
	}
	if forked(pid) {
		return true
	}
	program, err := os.Readlink(filepath.Join(dir, "exe"))
	return err == nil && strings.HasPrefix(program, p.Prefix)
}

func forked(pid int) bool {
	stat, err := forkexec.ReadStat(pid)
	return err == nil && stat.Forked
}
