package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// makeFile creates the file if it is missing and makes it readable for its owner only. SQLite gives its -wal and -shm
// files the same mode.
func makeFile(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		return errors.Join(f.Close(), syncDir(filepath.Dir(path)))
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		return os.Chmod(path, 0o600)
	}
	return nil
}

// checkLog refuses a write-ahead log next to a file that was never in WAL mode, such as a backup by VACUUM INTO: it is the log of the file
// that the backup replaced, and SQLite would merge the two. Other copies of a store cannot be distinguished from the store itself.
func checkLog(path string) error {
	log, err := os.Stat(path + "-wal")
	if err != nil || log.Size() == 0 {
		return nil // SQLite reports a file that it cannot read
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var mode [1]byte // SQLite's "file format read version": 1 is a rollback journal, 2 is WAL
	if _, err := f.ReadAt(mode[:], 19); err == nil && mode[0] == 1 {
		return fmt.Errorf("the write-ahead log %s-wal is that of another file", path)
	}
	return nil
}

// syncDir makes the name of a new file durable against a power failure, if the system can.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	d.Sync()
	return d.Close()
}
