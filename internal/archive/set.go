package archive

import "path"

// set holds the paths of an upload, including implied folders, and whether each is a folder.
type set map[string]bool

// add adds an entry and the folders above it.
func (s set) add(e Entry) error {
	for up := path.Dir(e.Path); up != "."; up = path.Dir(up) {
		if err := s.put(up, true, e.Path); err != nil {
			return err
		}
	}
	return s.put(e.Path, e.Dir, e.Path)
}

func (s set) put(name string, dir bool, entry string) error {
	old, ok := s[name]
	switch {
	case !ok:
		s[name] = dir
	case old != dir:
		return refuse("clash", entry, "%s is a file and a folder", shown(name))
	case !dir:
		return refuse("duplicate", entry, "%s comes twice", shown(name))
	}
	return nil
}
