package dir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/belljar/belljar"
)

// Orphans returns the ids of logs that were last written before t and for which known returns false, except those that
// this process writes. The ids are valid even with an error, which lists the files that could not be examined.
func (b *Book) Orphans(t time.Time, known func(id string) bool) ([]string, error) {
	var ids []string
	var errs []error
	days, err := os.ReadDir(b.path)
	if err != nil {
		return nil, err
	}
	last := t.UTC().Format(dayFormat)
	for _, day := range days {
		if !day.IsDir() || day.Name() != timeless && (len(day.Name()) != len(last) || day.Name() > last) {
			continue // a log is not written before its id is made
		}
		err := filepath.WalkDir(filepath.Join(b.path, day.Name()), func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				errs = append(errs, err)
				return nil
			}
			id, ok := strings.CutSuffix(e.Name(), suffix)
			if !ok || !belljar.ValidID(id) || !e.Type().IsRegular() {
				return nil
			}
			if info, err := e.Info(); err != nil || !info.ModTime().Before(t) || b.grows(id) || known(id) {
				return nil
			}
			ids = append(ids, id)
			return nil
		})
		if err != nil {
			errs = append(errs, err)
		}
	}
	return ids, errors.Join(errs...)
}

// grows reports whether this process writes the log of id.
func (b *Book) grows(id string) bool {
	l, err := b.cached(id)
	if l == nil || err != nil {
		return false
	}
	v, _ := l.look(0)
	return !v.sealed
}
