//go:build linux

package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
)

// A sandbox has no record from its claim until its agent runs. If its creator is killed in between, what may live on is
// found by the lock, which its first process has open from the first moment to its last, whatever cgroups this host has.
// Every process is looked at, which takes a while, and is only done for such a one.

// holder is a process that has a sandbox's lock open.
type holder struct {
	pid   int
	first bool // it is the first process of a sandbox, in birth or as its agent; else a creator
}

// inode is what a file is known by.
type inode struct{ dev, ino uint64 }

func (i inode) String() string { return fmt.Sprintf("%d:%d", i.dev, i.ino) }

func inodeOf(f *os.File) (inode, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return inode{}, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	return inode{st.Dev, st.Ino}, nil
}

// errUnseen says that a lock is held, and that we may not see by whom.
var errUnseen = errors.New("its lock is held by a process that cannot be found")

// endHalfMade kills what lives of a sandbox that cannot be attached to, and returns when it is gone.
func (r *Runtime) endHalfMade(ctx context.Context, id string) error {
	const looks, pause = 5, 10 * time.Millisecond
	for range looks {
		lock, err := r.state.take(id, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return lock.Close() // nobody lives
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		found, err := r.holders(id)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(found, func(h holder) bool { return h.first })
		if i >= 0 {
			return r.end(ctx, id, found[i].pid)
		}
		if len(found) > 0 {
			return nil // a creator, which removes what is its own
		}
		// It has ended since, or is about to close what it was forked with.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return errUnseen
}

// end destroys the sandbox whose first process is pid.
func (r *Runtime) end(ctx context.Context, id string, pid int) error {
	pidfd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil // it has ended
	}
	// Again, now that the pid cannot become another's.
	found, err := r.holders(id)
	if err != nil || !slices.Contains(found, holder{pid: pid, first: true}) {
		unix.Close(pidfd)
		return err
	}
	s := &sandbox{rt: r, id: id}
	if err := s.watch(pid, pidfd, false); err != nil {
		unix.Close(pidfd)
		return err
	}
	return s.Destroy(ctx)
}

// abandoned says whether a sandbox whose lock is held is half-made and its creator gone.
func (r *Runtime) abandoned(id string) bool {
	if _, err := r.state.read(id); err == nil {
		return false // without a look at every process
	}
	found, err := r.holders(id)
	if err != nil || len(found) == 0 || slices.ContainsFunc(found, func(h holder) bool { return !h.first }) {
		return false
	}
	_, err = r.state.read(id) // last: its creator may have written it, and ended, before we looked
	return err != nil
}

// holders finds the processes that have the lock of id open. One that has other locks open as well is just being
// forked by a creator, and left out.
func (r *Runtime) holders(id string) ([]holder, error) {
	locks, err := r.state.locks()
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
	var found []holder
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join("/proc", e.Name())
		open, files := openLocks(dir, locks)
		if !open[id] {
			continue
		}
		namespace, err := os.Readlink(filepath.Join(dir, "ns/pid"))
		if err != nil {
			continue // it has ended
		}
		first := namespace != own && isFirst(pid, dir)
		if first && files > 1 || namespace != own && !first && forked(pid) {
			continue // see above; or the second process of a birth, which ends with the first
		}
		found = append(found, holder{pid: pid, first: first})
	}
	return found, nil
}

// locks are the lock files there are. One has two names while its sandbox is claimed.
func (s state) locks() (map[inode][]string, error) {
	ids, err := s.list()
	if err != nil {
		return nil, err
	}
	locks := map[inode][]string{}
	for _, id := range ids {
		var st unix.Stat_t
		if unix.Lstat(s.lock(id), &st) == nil {
			at := inode{st.Dev, st.Ino}
			locks[at] = append(locks[at], id)
		}
	}
	return locks, nil
}

// openLocks are the sandboxes whose locks a process has open, and how many files these are, as far as we may see. An
// agent shows its descriptors to root only; the one lock it has is in its arguments as well.
func openLocks(dir string, locks map[inode][]string) (open map[string]bool, files int) {
	open, seen := map[string]bool{}, map[inode]bool{}
	found := func(at inode) {
		if len(locks[at]) > 0 {
			seen[at] = true
		}
		for _, id := range locks[at] {
			open[id] = true
		}
	}
	names, err := os.ReadDir(filepath.Join(dir, "fd"))
	if errors.Is(err, fs.ErrPermission) {
		if at, ok := toldLock(dir, locks); ok {
			found(at)
		}
		return open, len(seen)
	}
	for _, name := range names {
		var st unix.Stat_t
		if unix.Stat(filepath.Join(dir, "fd", name.Name()), &st) != nil {
			continue
		}
		found(inode{st.Dev, st.Ino})
	}
	return open, len(seen)
}

// toldLock is the lock that an agent's arguments name.
func toldLock(dir string, locks map[inode][]string) (inode, bool) {
	text, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return inode{}, false
	}
	args := strings.Split(string(text), "\x00")
	if args[0] != agentName || len(args) < 2 {
		return inode{}, false
	}
	var config agentConfig
	if json.Unmarshal([]byte(args[1]), &config) != nil {
		return inode{}, false
	}
	for at := range locks {
		if at.String() == config.Lock {
			return at, true
		}
	}
	return inode{}, false
}

// isFirst says whether a process of another pid namespace is the first of a sandbox: it is number 1 there, and either
// still our fork or become the agent. A belljar in a container, which may be number 1 there, is neither.
func isFirst(pid int, dir string) bool {
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
	return err == nil && strings.HasPrefix(program, "/memfd:"+agentName)
}

func forked(pid int) bool {
	stat, err := forkexec.ReadStat(pid)
	return err == nil && stat.Forked
}
