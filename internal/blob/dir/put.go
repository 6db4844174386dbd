package dir

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
)

// Limits of a path on the supported file systems.
const (
	maxName = 255  // bytes of one element
	maxPath = 4096 // bytes in total
)

// Put stores the bytes of r. It returns [belljar.CodeConflict] if the path is a directory prefix of another artifact, or the reverse,
// and [belljar.CodeInvalidRequest] if the path is too long for a file.
func (s *Store) Put(ctx context.Context, k blob.Key, r io.Reader) (info blob.Info, err error) {
	var f *os.File
	err = s.keep(k, func(run string) (name string, err error) {
		f, name, err = s.temporary(run)
		return name, err
	}, func() (err error) {
		info, err = blob.Receive(ctx, f, r)
		return errors.Join(err, f.Close())
	})
	return info, err
}

// keep stores an artifact. begin creates it in the folder of its run, under a temporary name, and fill fills it, unless fill is nil.
func (s *Store) keep(k blob.Key, begin func(run string) (name string, err error), fill func() error) error {
	if err := k.Check(); err != nil {
		return err
	}
	if err := checkLength(k.Path); err != nil {
		return err
	}
	run := runFolder(k.UserID, k.RunID)
	name, err := s.begin(k.UserID, run, begin)
	if err == nil {
		if fill != nil {
			err = fill()
		}
		if err == nil {
			err = s.place(name, path.Join(run, artifacts, k.Path))
		}
		if err != nil {
			_ = s.root.Remove(name)
		}
	}
	if err != nil {
		return orFull(fmt.Errorf("keep artifact %q: %w", k.Path, err))
	}
	return nil
}

func checkLength(p string) error {
	limit := 0
	if len(p) > maxPath {
		limit = maxPath
	}
	for part := range strings.SplitSeq(p, "/") {
		if len(part) > maxName {
			limit = maxName
		}
	}
	switch limit {
	case 0:
		return nil
	case maxName:
		return &belljar.Error{
			Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("artifact has a name of more than %d bytes", maxName),
			Details: map[string]any{"path": p, "limit": maxName},
		}
	}
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("artifact has a path of more than %d bytes", maxPath),
		Details: map[string]any{"limit": maxPath},
	}
}

// begin creates a file in the folder of a run.
func (s *Store) begin(userID, run string, file func(run string) (name string, err error)) (string, error) {
	s.tree.RLock()
	defer s.tree.RUnlock()
	if err := s.root.MkdirAll(run, 0o700); err != nil {
		return "", err
	}
	if user := userFolder(userID); hashed(user) {
		if err := s.writeName(user, userID); err != nil {
			return "", err
		}
	}
	return file(run)
}

// temporary creates a file with a new name in a folder.
func (s *Store) temporary(folder string) (f *os.File, name string, err error) {
	name = temporaryName(folder)
	f, err = s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return f, name, err
}

// temporaryPrefix begins the names of unfinished files.
const temporaryPrefix = "put-"

func temporaryName(folder string) string {
	var b [12]byte
	rand.Read(b[:])
	return path.Join(folder, temporaryPrefix+hex.EncodeToString(b[:]))
}

// writeName writes a user's name file, unless it exists.
func (s *Store) writeName(user, userID string) error {
	if b, err := s.root.ReadFile(path.Join(user, nameFile)); err == nil && string(b) == userID {
		return nil
	}
	f, name, err := s.temporary(user)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, userID)
	if synced := f.Sync(); err == nil {
		err = synced
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = s.root.Rename(name, path.Join(user, nameFile))
	}
	if err != nil {
		_ = s.root.Remove(name)
	}
	return err
}

// place renames a finished file to its final name.
func (s *Store) place(name, target string) error {
	err := s.root.MkdirAll(path.Dir(target), 0o700)
	if err == nil {
		err = s.root.Rename(name, target)
	}
	for _, clash := range []error{syscall.ENOTDIR, syscall.EISDIR, fs.ErrExist, syscall.ENOTEMPTY} {
		if errors.Is(err, clash) {
			return &belljar.Error{
				Code: belljar.CodeConflict, Message: "another artifact has a part of this path as its own, or the other way round", Err: err,
			}
		}
	}
	return err
}

// orFull returns err, as [blob.ErrFull] if it means that the disk is full.
func orFull(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", blob.ErrFull, err)
	}
	return err
}
