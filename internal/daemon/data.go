package daemon

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// dataDir is the folder of one installation: its secrets, its records, and a lock that excludes a second daemon.
type dataDir struct {
	path string
	lock *os.File
}

// free returns the free space of the folder's disk, or of the disk of a store outside it, if that has less.
func (d *dataDir) free(store string) (uint64, error) {
	free, err := freeBytes(d.path)
	if err != nil || store == "" {
		return free, err
	}
	records, err := freeBytes(filepath.Dir(store))
	return min(free, records), err
}

// defaultData is the default data folder.
func defaultData(h *Host) (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/belljar", nil
	}
	if base, _ := h.Getenv("XDG_DATA_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "belljar"), nil
	}
	if home, _ := h.Getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "share", "belljar"), nil
	}
	return "", mistake("name one with SANDBOX_DATA, or with serve's --data", "no folder for data: neither XDG_DATA_HOME nor HOME is set")
}

// openData creates the folder if it is missing, accessible only to its owner, and locks it.
func openData(path string) (*dataDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, unusable(path, err)
	}
	lock, err := openLock(filepath.Join(path, "lock"))
	switch {
	case errors.Is(err, errLocked):
		return nil, &belljar.Error{
			Code: belljar.CodeConflict, Message: "data folder " + path + " is in use by another belljar",
			Hint: "stop that one, or give this one another folder with --data",
		}
	case err != nil:
		return nil, unusable(path, err)
	}
	tidy(path)
	return &dataDir{path, lock}, nil
}

// temporaries begin the names of temporary files: the daemon's, those of the store, and uploads, which lose their names at once only on Unix.
var temporaries = []string{newPrefix, ".space-", ".belljar-upload-", "belljar-upload-", "belljar-snapshot-", "belljar-git-"}

// tidy removes the temporary files of killed processes.
func tidy(path string) {
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		if e.Type().IsRegular() && slices.ContainsFunc(temporaries, func(prefix string) bool { return strings.HasPrefix(e.Name(), prefix) }) {
			_ = os.Remove(filepath.Join(path, e.Name())) // the next start tries again
		}
	}
}

// openLock creates a file if it is missing, and locks it until it is closed. It fails with errLocked if another process has the lock.
func openLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func unusable(path string, err error) error {
	hint := "name a folder that you can write with SANDBOX_DATA, or with serve's --data"
	if fault.Full(err) {
		hint = "free space on its disk, or files as df -i counts them"
	}
	return &belljar.Error{Code: belljar.CodeInternal, Message: "data folder " + path + " cannot be used", Err: err, Hint: hint}
}

// Close releases the lock.
func (d *dataDir) Close() error { return d.lock.Close() }

// open reports whether every user of this machine can write in the folder. A container's volume may require that.
func (d *dataDir) open() bool {
	info, err := os.Stat(d.path)
	return err == nil && goruntime.GOOS != "windows" && info.Mode().Perm()&0o002 != 0
}

// in returns a path below the folder.
func (d *dataDir) in(name ...string) string {
	return filepath.Join(append([]string{d.path}, name...)...)
}

// secret returns the secret stored under name. If there is none, it stores fresh() with mode 0600 and returns made.
func (d *dataDir) secret(name string, fresh func() string) (value string, made bool, err error) {
	path := d.in(name)
	raw, err := os.ReadFile(path)
	if err == nil {
		if value := string(bytes.TrimSpace(raw)); value != "" {
			if err := hide(path); err != nil {
				return "", false, unusable(d.path, err)
			}
			return value, false, nil
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", false, unusable(d.path, err)
	}
	value = fresh()
	if err := writeSynced(path, value+"\n"); err != nil {
		return "", false, unusable(d.path, err)
	}
	return value, true, nil
}

// hide makes a file readable only by its owner. A file restored from a backup may be open to others.
func hide(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	return os.Chmod(path, 0o600)
}

// storeName is the SQLite store in a data folder.
const storeName = "belljar.db"

// forMemory refuses to keep records in memory in the folder of a SQLite store: the first sweep would remove the sandboxes, logs and
// artifacts of that store.
func (d *dataDir) forMemory() error {
	store := d.in(storeName)
	if _, err := os.Lstat(store); errors.Is(err, fs.ErrNotExist) {
		return nil // without a store, they are those of an earlier server with its records in memory
	}
	return &belljar.Error{
		Code: belljar.CodeConflict, Message: "data folder " + d.path + " has the store " + store + ", whose runs a server with its records in memory would remove",
		Hint: "give the server another folder with --data, or keep its records with SANDBOX_STORE_BACKEND=sqlite",
	}
}

// checkStore refuses a missing or empty store in a folder that holds the data of another store's runs. The first sweep would remove
// that data, because the new store does not know those runs. The other store may be on a disk that is not mounted, or not restored yet.
func (d *dataDir) checkStore(store string) error {
	state := "is empty"
	switch info, err := os.Lstat(store); {
	case errors.Is(err, fs.ErrNotExist):
		state = "does not exist"
	case err != nil || info.Size() > 0:
		return nil
	}
	for _, dir := range []string{d.in("logs"), d.in("artifacts")} {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				return errFound
			}
			return err
		})
		if errors.Is(err, errFound) {
			return &belljar.Error{
				Code: belljar.CodeConflict, Message: "store " + store + " " + state + ", but " + dir + " has files of its runs",
				Hint: "restore the store, or name it with SANDBOX_STORE_DB_PATH; to start without these runs, move the folders logs and artifacts away",
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return unusable(d.path, err)
		}
	}
	return nil
}

var errFound = errors.New("a file was found")

// damagedSecret returns the error for a file without a valid secret. loss describes what a new secret costs.
func damagedSecret(path, loss string, err error) error {
	return &belljar.Error{
		Code: belljar.CodeInternal, Message: path + " is damaged", Err: err,
		Hint: "restore it from a backup, or remove it: a new one is made, and " + loss,
	}
}

// newPrefix begins the names of unfinished files.
const newPrefix = ".new-"

// writeSynced replaces a file. After a crash during the call, it has either the old or the new content; after the call, the new one.
func writeSynced(path, content string) error {
	f, err := os.CreateTemp(filepath.Dir(path), newPrefix)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	_, err = f.WriteString(content)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync() // not every file system can
		_ = dir.Close()
	}
	return nil
}

// randomHex returns n random bytes in hexadecimal.
func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// newKey returns a new API key.
func newKey() string { return fmt.Sprintf("blj_%s", randomHex(24)) }
