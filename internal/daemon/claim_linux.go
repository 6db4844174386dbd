package daemon

import (
	"errors"
	"io/fs"
	"os"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/linux/roster"
	"github.com/belljar/belljar/internal/linux/rundir"
)

// claim keeps the sandboxes of an installation for this process, until the caller closes it. A copy of a data folder names the
// installation of the original: a second server would end every sandbox of the first, because its own records do not have them.
func (d *dataDir) claim(installation string) (release func() error, err error) {
	servers, err := roster.Open(rundir.Default(), []string{"servers"}, belljar.ValidID)
	if err != nil { // the runtimes that need this folder fail, and say how to have one; docker does not need it
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
		if !named(lock, path) { // its holder removed it between our open and our lock
			lock.Close()
			continue
		}
		release = func() error {
			if named(lock, path) { // a cleaner of temporary folders has not removed it
				_ = os.Remove(path) // one that stays is taken again
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

// sweepClaims removes the locks of servers that were killed and whose data folders are gone, so that no server takes them again. It locks no
// other: a server that is about to start would be refused.
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

// copied returns the error for a data folder whose sandboxes another server has. path has the name of that one's folder.
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
