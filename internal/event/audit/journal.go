package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Parts of a file's name.
const (
	prefix    = "audit-"
	suffix    = ".jsonl"
	dayFormat = "20060102"
)

// journal holds the files of a trail: one for each day.
type journal struct {
	path   string
	days   int      // to keep files
	day    string   // of the file
	file   *os.File // nil if it could not be opened
	ragged bool     // the file may end with a partial line
}

// openJournal opens today's file and removes expired ones.
func openJournal(path string, days int, now time.Time) (*journal, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the audit trail: %w", err)
	}
	j := &journal{path: path, days: days}
	return j, j.turn(now)
}

// turn switches to the file of the day of now.
func (j *journal) turn(now time.Time) error {
	now = now.UTC()
	day := now.Format(dayFormat)
	if j.file != nil && j.day == day {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(j.path, prefix+day+suffix), os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the audit trail: %w", err)
	}
	ragged, err := endsRagged(f)
	if err != nil {
		f.Close()
		return fmt.Errorf("open the audit trail: %w", err)
	}
	_ = j.close() // its lines are written; a failed sync cannot be retried
	j.file, j.day, j.ragged = f, day, ragged
	j.sweep(now)
	return nil
}

// endsRagged reports whether a crash cut a file's last line short.
func endsRagged(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return last[0] != '\n', err
}

// write appends complete lines: all of them or, after an error, none.
func (j *journal) write(now time.Time, lines []byte) error {
	if err := j.turn(now); err != nil {
		return err
	}
	if j.ragged {
		lines = append([]byte{'\n'}, lines...)
	}
	n, err := j.file.Write(lines)
	if err == nil {
		j.ragged = false
		return nil
	}
	if n > 0 {
		info, failed := j.file.Stat()
		if failed == nil {
			failed = j.file.Truncate(info.Size() - int64(n))
		}
		if failed != nil {
			j.ragged = true
		}
	}
	return err
}

// sweep removes expired files. It retries a failed removal the next day.
func (j *journal) sweep(now time.Time) {
	entries, err := os.ReadDir(j.path)
	if err != nil {
		return
	}
	oldest := now.AddDate(0, 0, -j.days).Format(dayFormat)
	for _, e := range entries {
		day, ok := strings.CutPrefix(e.Name(), prefix)
		if ok {
			day, ok = strings.CutSuffix(day, suffix)
		}
		if _, err := time.Parse(dayFormat, day); ok && err == nil && day < oldest {
			_ = os.Remove(filepath.Join(j.path, e.Name()))
		}
	}
}

// close syncs and closes the file.
func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	err := errors.Join(j.file.Sync(), j.file.Close())
	j.file = nil
	return err
}
