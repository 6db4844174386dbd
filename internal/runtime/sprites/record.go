package sprites

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// record describes a detached sandbox, so that a later process finds it. It is written before the session begins.
type record struct {
	Session string `json:"session"` // "" until the sprite has sent it
}

const recordEnd = ".json"

func (r *Runtime) recordOf(id string) string { return filepath.Join(r.opts.State, id+recordEnd) }

// unfinishedEnd ends the name of a record that is being written.
const unfinishedEnd = ".new"

// tidy removes the unfinished records of killed processes.
func (r *Runtime) tidy() {
	entries, _ := os.ReadDir(r.opts.State)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), recordEnd+unfinishedEnd) {
			_ = os.Remove(filepath.Join(r.opts.State, e.Name())) // the next start tries again
		}
	}
}

// note writes a sandbox's record.
func (r *Runtime) note(id string, rec record) error {
	if r.opts.State == "" {
		return nil
	}
	if err := os.MkdirAll(r.opts.State, 0o700); err != nil {
		return err
	}
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	next := r.recordOf(id) + unfinishedEnd
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, r.recordOf(id))
}

// noted returns a sandbox's record; [runtime.ErrNotFound] if there is none.
func (r *Runtime) noted(id string) (rec record, err error) {
	if r.opts.State == "" || !belljar.ValidID(id) {
		return rec, runtime.ErrNotFound
	}
	text, err := os.ReadFile(r.recordOf(id))
	if errors.Is(err, fs.ErrNotExist) {
		return rec, runtime.ErrNotFound
	}
	if err == nil {
		err = json.Unmarshal(text, &rec)
	}
	if err == nil && rec.Session != "" && !validSession(rec.Session) {
		err = errors.New("the record of the sandbox is damaged")
	}
	return rec, err
}

// erase removes a sandbox's record.
func (r *Runtime) erase(id string) error {
	if r.opts.State == "" {
		return nil
	}
	if err := os.Remove(r.recordOf(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// recorded returns the ids of all records.
func (r *Runtime) recorded() (ids []string, err error) {
	if r.opts.State == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(r.opts.State)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), recordEnd); ok && belljar.ValidID(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, err
}
