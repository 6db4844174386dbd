package daemon

import (
	"errors"
	"io/fs"
	"os"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/linux/roster"
	"github.com/belljar/belljar/internal/linux/rundir"
)

// claim reserves the sandboxes of an installation for this process, until the caller calls release. A copied data folder names the
// installation of the original. A second server with that copy would end every sandbox of the first, because its own records lack them.
func (d *dataDir) claim(installation string) (release func() error, err error) {
	servers, err := roster.Open(rundir.Default(), []string{"servers"}, belljar.ValidID)
	if err != nil { // runtimes that need this folder fail and report how to fix it; docker does not need it
		return func() error { return nil }, nil
	}
	sweepClaims(servers)
	path := servers.Lock(installation)
	for {
		lock, err := openLock(path)
		if errors.Is(err, errLocked) {
			return nil, d.copied(path)
		}
		if err != nil {
			return nil, unclaimed(err)
		}
		if !named(lock, path) { // the previous holder removed it between open and lock
			lock.Close()
			continue
		}
		release = func() error {
			if named(lock, path) { // no cleaner of temporary folders has removed it
				_ = os.Remove(path) // if it stays, the next server takes it
			}
			return lock.Close()
		}
		err = lock.Truncate(0)
		if err == nil {
			_, err = lock.WriteString(d.path)
		}
		if err != nil {
			return nil, errors.Join(unclaimed(err), release())
		}
		return release, nil
	}
}

// sweepClaims removes the locks of servers that were killed and whose data folders no longer exist, so that no server takes them again. It
// locks no other file, because a server that starts at that moment would be refused.
func sweepClaims(servers *roster.Roster) {
	names, _ := servers.List()
	for _, name := range names {
		path := servers.Lock(name)
		data, err := os.ReadFile(path)
		if err != nil || len(data) == 0 {
			continue
		}
		if _, err := os.Lstat(string(data)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		lock, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if lockFile(lock) == nil && named(lock, path) {
			_ = os.Remove(path) // the next server tries again
		}
		_ = lock.Close()
	}
}

func unclaimed(err error) error {
	return &belljar.Error{
		Code: belljar.CodeInternal, Message: "the folder of sandboxes' sockets and locks, " + rundir.Default() + ", cannot be used", Err: err,
		Hint: rundir.Hint(),
	}
}

// named reports whether path is the name of an open file.
func named(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, now)
}

// copied returns the error for a data folder whose sandboxes another server holds. The file at path names the other server's data folder.
func (d *dataDir) copied(path string) error {
	original := "another"
	if name, err := os.ReadFile(path); err == nil && len(name) > 0 {
		original = string(name)
	}
	return &belljar.Error{
		Code:    belljar.CodeConflict,
		Message: "data folder " + d.path + " is a copy of " + original + ", whose belljar is running: both would use the same sandboxes",
		Hint:    "stop that one, or remove " + d.in("installation") + " here: a new one is made, and the sessions of this copy are lost",
	}
}
