package dir

import (
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/blob"
)

// Draft implements [blob.Drafter]. Not every file system has files without a name.
func (s *Store) Draft() (*os.File, error) {
	return s.root.OpenFile(".", os.O_RDWR|unix.O_TMPFILE, 0o600)
}

// Keep implements [blob.Drafter].
func (s *Store) Keep(k blob.Key, draft *os.File) error {
	return s.keep(k, func(run string) (name string, err error) {
		dir, err := s.root.Open(run)
		if err != nil {
			return "", err
		}
		defer dir.Close()
		name = temporaryName(run)
		from := fmt.Sprintf("/proc/self/fd/%d", draft.Fd())
		return name, unix.Linkat(unix.AT_FDCWD, from, int(dir.Fd()), path.Base(name), unix.AT_SYMLINK_FOLLOW)
	}, nil)
}
