package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/store"
)

// mapError maps a driver's error to the errors of the contract.
func mapError(path string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrNotFound
	}
	var known *driver.Error
	if !errors.As(err, &known) {
		return err
	}
	switch known.Code() & 0xff {
	case lib.SQLITE_CONSTRAINT:
		switch known.Code() {
		case lib.SQLITE_CONSTRAINT_UNIQUE, lib.SQLITE_CONSTRAINT_PRIMARYKEY:
			return fmt.Errorf("%w: %w", store.ErrExists, err)
		}
	case lib.SQLITE_FULL:
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case lib.SQLITE_IOERR:
		if diskFull(filepath.Dir(path)) {
			return fmt.Errorf("%w: %w", store.ErrFull, err)
		}
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return &belljar.Error{Code: belljar.CodeInternal, Message: "the store " + path + " is damaged", Err: err, Hint: hintDamaged}
	}
	return err
}

const hintDamaged = "the file is damaged or no database: restore it from a backup and remove its -wal and -shm files, or move it away, with these files, logs and artifacts, and start with an empty store"

// mapError is [mapError] that remembers a damaged file for [Store.Ping]: the damage may be where Ping does not read.
func (w *writer) mapError(err error) error {
	err = mapError(w.path, err)
	if belljar.HintOf(err) == hintDamaged {
		w.damage.CompareAndSwap(nil, &err)
	}
	return err
}

// diskFull reports whether a test write to dir fails because the disk is full. SQLite reports some full disks as plain I/O errors.
func diskFull(dir string) bool {
	f, err := os.CreateTemp(dir, ".space-*")
	if err == nil {
		_, err = f.Write(make([]byte, 64<<10))
		err = errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
	}
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// endsTransaction reports whether an error ends the whole transaction rather than one write.
func endsTransaction(err error) bool {
	var known *driver.Error
	if !errors.As(err, &known) {
		return false
	}
	switch known.Code() & 0xff {
	case lib.SQLITE_FULL, lib.SQLITE_IOERR, lib.SQLITE_NOMEM, lib.SQLITE_BUSY, lib.SQLITE_INTERRUPT, lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB, lib.SQLITE_READONLY:
		return true
	}
	return false
}

func isDriverError(err error) bool {
	var known *driver.Error
	return errors.As(err, &known)
}
