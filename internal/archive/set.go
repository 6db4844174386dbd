package archive

import (
	"path"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// set holds the paths of an upload, including implied folders. It detects names that are equal on file systems that
// ignore case or the Unicode form: there two such files would be one.
type set struct {
	entries map[string]known
	fold    cases.Caser
}

// known is a path in a set.
type known struct {
	path string
	dir  bool
}

func newSet() *set { return &set{entries: map[string]known{}, fold: cases.Fold()} }

// key returns the same text for names that are equal on some file system.
func (s *set) key(name string) string { return norm.NFC.String(s.fold.String(norm.NFC.String(name))) }

// add adds an entry and the folders above it.
func (s *set) add(e Entry) error {
	for up := path.Dir(e.Path); up != "."; up = path.Dir(up) {
		if err := s.put(known{up, true}, e.Path); err != nil {
			return err
		}
	}
	return s.put(known{e.Path, e.Dir}, e.Path)
}

func (s *set) put(k known, entry string) error {
	key := s.key(k.path)
	old, ok := s.entries[key]
	switch {
	case !ok:
		s.entries[key] = k
	case old.path != k.path:
		return refuse("twin", entry, "%s and %s are one file where case or Unicode form do not count", shown(old.path), shown(k.path))
	case old.dir != k.dir:
		return refuse("clash", entry, "%s is a file and a folder", shown(k.path))
	case !k.dir:
		return refuse("duplicate", entry, "%s comes twice", shown(k.path))
	}
	return nil
}
