package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
)

// Orphans returns the runs whose last Put was before t and for which known returns false. Their keys have no path. The
// keys are valid even with an error, which lists the folders that could not be examined.
func (s *Store) Orphans(ctx context.Context, t time.Time, known func(runID string) bool) ([]blob.Key, error) {
	users, err := s.list(".")
	if err != nil {
		return nil, err
	}
	var keys []blob.Key
	var errs []error
	for _, user := range users {
		runs, err := s.list(path.Join(user.Name(), "runs"))
		if err != nil {
			if orNotFound(err) != blob.ErrNotFound {
				errs = append(errs, err)
			}
			continue
		}
		userID, err := s.user(user.Name())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, run := range runs {
			if err := ctx.Err(); err != nil {
				return keys, err
			}
			info, err := run.Info()
			if err != nil || !run.IsDir() || !belljar.ValidID(run.Name()) || !info.ModTime().Before(t) || known(run.Name()) {
				continue
			}
			keys = append(keys, blob.Key{UserID: userID, RunID: run.Name()})
		}
	}
	return keys, errors.Join(errs...)
}

// user returns the owner of a folder.
func (s *Store) user(folder string) (string, error) {
	if !hashed(folder) {
		if userID, ok := folderUser(folder); ok {
			return userID, nil
		}
		return "", fmt.Errorf("folder %q among artifacts belongs to no user", folder)
	}
	b, err := fs.ReadFile(s.root.FS(), path.Join(folder, nameFile))
	if err != nil {
		return "", err
	}
	if userFolder(string(b)) != folder {
		return "", fmt.Errorf("%s of %s does not belong there", nameFile, folder)
	}
	return string(b), nil
}
