package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
)

const (
	privatePrefix = "belljar-private-" // of folder names
	socketName    = "api.sock"
	// longestSocket is the portable maximum length of a socket's path: Linux has room for 108 bytes, other systems for 104,
	// including the final zero byte.
	longestSocket = 103
	// deadAge is the minimum age of an unlocked folder before a sweep removes it. The lock of a younger folder may still be
	// pending.
	deadAge = time.Minute
)

// privatePlace holds the folders for a private server's socket and data.
type privatePlace struct {
	data    *dataDir
	socket  string
	folders []*dataDir // to remove at the end
	bases   []string   // parents of such folders
}

// openPrivate creates the folders, which only this user can enter. If data is "", the data is removed with the server.
func openPrivate(data string) (p *privatePlace, err error) {
	p = &privatePlace{}
	defer func(begun *privatePlace) {
		if err != nil {
			err = errors.Join(err, begun.Close())
		}
	}(p)
	if data == "" {
		if p.data, err = p.folder(os.TempDir()); err != nil {
			return nil, err
		}
		if p.socket = p.data.in(socketName); len(p.socket) <= longestSocket {
			return p, nil
		}
	} else if p.data, err = openData(data); err != nil {
		return nil, err
	}
	for _, base := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp"} {
		if !filepath.IsAbs(base) || len(filepath.Join(base, privatePrefix+"0000000000", socketName)) > longestSocket {
			continue
		}
		home, made := p.folder(base)
		if made == nil {
			p.socket = home.in(socketName)
			return p, nil
		}
		err = errors.Join(err, made)
	}
	return nil, &belljar.Error{
		Code: belljar.CodeInternal, Message: "no folder for a socket", Err: err,
		Hint: "name one with TMPDIR that you can write, and whose path is short",
	}
}

// folder creates a folder below base that is removed with the server.
func (p *privatePlace) folder(base string) (*dataDir, error) {
	base, err := filepath.Abs(base)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(p.bases, base) {
		p.bases = append(p.bases, base)
	}
	path, err := os.MkdirTemp(base, privatePrefix+"*")
	if err != nil {
		return nil, unusable(base, err)
	}
	d, err := openData(path)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	p.folders = append(p.folders, d)
	return d, nil
}

// images returns the folder for images. A server with temporary data shares the images of local commands, so that each program
// does not pull its own.
func (p *privatePlace) images(h *Host, cfg *config.Config) string {
	if !slices.Contains(p.folders, p.data) {
		return p.data.path
	}
	shared := cfg.Data
	if shared == "" {
		shared, _ = defaultData(h) // "" if there is none
	}
	if shared == "" || !writable(shared) {
		h.Print("warning: no folder to share images with other commands, so each pulls its own: set HOME, or SANDBOX_DATA")
		return p.data.path
	}
	return shared
}

// writable creates a folder if it is missing and reports whether files can be created in it.
func writable(path string) bool {
	if os.MkdirAll(path, 0o700) != nil {
		return false
	}
	f, err := os.CreateTemp(path, newPrefix)
	if err != nil {
		return false
	}
	return errors.Join(f.Close(), os.Remove(f.Name())) == nil
}

// Close removes the temporary folders.
func (p *privatePlace) Close() error {
	var errs []error
	if p.data != nil && !slices.Contains(p.folders, p.data) {
		errs = append(errs, p.data.Close())
	}
	for _, d := range p.folders {
		errs = append(errs, d.Close(), os.RemoveAll(d.path))
	}
	return errors.Join(errs...)
}

// sweep removes the folders of killed private servers. Their locks ended with their processes.
func (p *privatePlace) sweep(ctx context.Context) {
	for _, base := range p.bases {
		entries, _ := os.ReadDir(base) // a later sweep retries
		for _, e := range entries {
			path := filepath.Join(base, e.Name())
			ours := slices.ContainsFunc(p.folders, func(d *dataDir) bool { return d.path == path })
			if ctx.Err() == nil && !ours && strings.HasPrefix(e.Name(), privatePrefix) {
				removeDead(path)
			}
		}
	}
}

// removeDead removes the folder of an ended private server of this user.
func removeDead(path string) {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || !ownFile(info) || time.Since(info.ModTime()) < deadAge {
		return
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer lock.Close()
	if lockFile(lock) == nil {
		_ = os.RemoveAll(path) // a later sweep retries
	}
}
