//go:build linux

package native

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/runtime"
)

const (
	lockSuffix  = ".lock"
	agentSocket = "agent.sock"
	recordName  = "record.json"
)

// record is what is needed to find a sandbox again. A pid alone names nobody: it is reused within a boot.
type record struct {
	Pid       int              `json:"pid"`
	StartTime uint64           `json:"start_time"` // clock ticks after boot, proc_pid_stat(5) field 22
	BootID    string           `json:"boot_id"`
	Lifetime  runtime.Lifetime `json:"lifetime"`
	Pids      int              `json:"pids"`              // how many processes its programs may have
	IDBase    int              `json:"id_base,omitempty"` // of its claim of host ids; 0 if it has none
	Cgroup    []cgroup.Folder  `json:"cgroup,omitempty"`  // wherever its maker lived, which need not be where we live
}

// state is the folder of one installation's sandboxes.
type state struct{ dir string }

// openState makes the folder of an installation. Somebody else's folder on the way could hand us sockets and records
// of their making, so every one of ours must be ours alone.
func openState(runDir, installation string) (state, error) {
	dir := runDir
	for _, name := range []string{"", Name, installation} {
		dir = filepath.Join(dir, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return state{}, err
		}
		info, err := os.Lstat(dir)
		if err != nil {
			return state{}, err
		}
		if st := info.Sys().(*syscall.Stat_t); !info.IsDir() || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
			return state{}, fmt.Errorf("%s is not a folder that only we can write to", dir)
		}
	}
	return state{dir: dir}, nil
}

func (s state) folder(id string) string { return filepath.Join(s.dir, id) }
func (s state) lock(id string) string   { return filepath.Join(s.dir, id+lockSuffix) }

// claim makes the folder of a new sandbox and takes its lock, which the caller closes.
func (s state) claim(id string) (*os.File, error) {
	lock, err := s.take(id, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		if _, statErr := os.Lstat(s.folder(id)); statErr == nil {
			return nil, fmt.Errorf("sandbox %s exists", id)
		}
		lock, err = s.take(id, unix.LOCK_EX) // a sweeper looks at our new lock file, and will unlink it
	}
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(s.folder(id), 0o700); err != nil {
		lock.Close()
		if errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("sandbox %s exists", id)
		}
		os.Remove(s.lock(id))
		return nil, err
	}
	return lock, nil
}

// take locks id's lock file. A sweeper may unlink the file between our open and our lock; then we lock a new one. The
// folder is missing if another process of this installation found it empty at its end, and everything above it if
// somebody has cleaned up: it is made again.
func (s state) take(id string, how int) (*os.File, error) {
	for {
		f, err := os.OpenFile(s.lock(id), os.O_CREATE|os.O_RDWR, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			all := filepath.Dir(s.dir)
			if _, err := openState(filepath.Dir(all), filepath.Base(s.dir)); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), how); err != nil {
			f.Close()
			return nil, err
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err == nil && st.Nlink > 0 {
			return f, nil
		}
		f.Close()
	}
}

// forget removes what lies on disk of id. Idempotent.
func (s state) forget(id string) error {
	if err := os.RemoveAll(s.folder(id)); err != nil {
		return err
	}
	if err := os.Remove(s.lock(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// list names every sandbox that has left a trace.
func (s state) list() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	seen := map[string]bool{}
	var ids []string
	for _, e := range entries {
		id := strings.TrimSuffix(e.Name(), lockSuffix)
		if !seen[id] && belljar.ValidID(id) {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (s state) write(id string, r record) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	tmp := filepath.Join(s.folder(id), recordName+".new")
	if err := os.WriteFile(tmp, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(s.folder(id), recordName))
}

func (s state) read(id string) (record, error) {
	raw, err := os.ReadFile(filepath.Join(s.folder(id), recordName))
	if err != nil {
		return record{}, err
	}
	var r record
	return r, json.Unmarshal(raw, &r)
}

// open returns a pidfd of the process that r names, or [runtime.ErrNotFound] if that has ended.
func (r record) open() (int, error) {
	if r.Pid <= 0 || r.BootID != bootID() {
		return -1, runtime.ErrNotFound
	}
	pidfd, err := unix.PidfdOpen(r.Pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return -1, runtime.ErrNotFound
	}
	if stat, err := forkexec.ReadStat(r.Pid); err != nil || stat.StartTime != r.StartTime {
		unix.Close(pidfd)
		return -1, runtime.ErrNotFound
	}
	return pidfd, nil
}

func bootID() string {
	raw, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(raw))
}
