// Package gocache keeps a Go build cache for each image: the compiled standard library, without which the first build in a
// fresh sandbox takes many seconds. [Store.Fill] has the image's own toolchain build it, in a sandbox of its own; no other
// run ever writes to it. Sandboxes read it below an overlay (runtime.Root.GoCache).
//
// Entries are named by what they were made from, so a cache of another version of Go is only of no use.
package gocache

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar"
)

// Store is a folder of caches. Its methods are safe for concurrent use, by several processes, too.
type Store struct {
	dir  string // of caches, by image
	most int64  // bytes of all
}

// New keeps caches in dir, which need not exist.
func New(dir string) *Store { return &Store{dir, mostKept} }

// Folder is the cache of an image, by the image's digest or else its name; "" if there is none. It counts as a use.
func (s *Store) Folder(ref, digest string) string {
	dir := s.path(ref, digest)
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return ""
	}
	if now := time.Now(); now.Sub(info.ModTime()) > usePrecision {
		_ = os.Chtimes(dir, now, now) // else it goes sooner than it should
	}
	return dir
}

func (s *Store) path(ref, digest string) string {
	if digest == "" {
		digest = ref
	}
	return filepath.Join(s.dir, strings.Map(func(r rune) rune {
		if r == '/' || r == ':' || r == '.' {
			return '-'
		}
		return r
	}, digest))
}

// The program that fills a cache, and where.
const (
	folder = "cache"
	script = `command -v go >/dev/null || exit ` + noGo + `
GOCACHE=$PWD/` + folder + ` exec go build std`
	noGo = "42"
)

// Bounds of what a fill may use, if the server allows as much, and leave.
const (
	fillSeconds  = 900
	fillMB       = 1024 // workspace
	mostEntries  = 100_000
	mostBytes    = fillMB << 20
	memoryMB     = 2048
	entryPattern = `^[0-9a-f]{2}/[0-9a-f]{64}-[ad]$`
)

// Bounds of all caches together. Anyone whose image has a program called go can have one made.
const (
	mostKept     = 8 << 30 // bytes
	block        = 4096    // what a file's size is rounded up to on a disk
	usePrecision = time.Hour
)

// ErrNoGo says that an image has no Go.
var ErrNoGo = errors.New("the image has no go command")

// Fill builds the cache of an image in a session of svc, which takes about a minute of CPU time, and puts it in place of an
// older one.
func (s *Store) Fill(ctx context.Context, svc belljar.Service, ref string) (err error) {
	me, err := svc.Node().Me(ctx)
	if err != nil {
		return err
	}
	most := me.MaxLimits
	timeout := min(fillSeconds, most.TimeoutSec)
	x, err := svc.Sessions().Create(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
		SpecVersion: "1.0", BaseImage: ref, TimeoutSec: timeout, LifetimeSec: 2 * fillSeconds, WorkspaceExec: true,
		Resources: belljar.Resources{WorkspaceMB: min(fillMB, most.WorkspaceMB), MemoryMB: min(memoryMB, most.MemoryMB)},
		AllowWeak: []string{"memory"}, // the bound is for the host's sake, which may have no way to keep it
		Labels:    map[string]string{"belljar": "go-cache"},
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, svc.Sessions().Delete(context.WithoutCancel(ctx), x.ID)) }()
	run, err := svc.Runs().Start(ctx, belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: "1.0", SessionID: x.ID, Command: []string{"sh", "-c", script}, TimeoutSec: timeout,
		Cwd: ".", // where the archive is taken from, and not the image's WORKDIR
	}})
	if err != nil {
		return err
	}
	run, _, err = belljar.Collect(ctx, svc.Runs(), run.ID)
	switch {
	case err != nil:
		return err
	case run.ExitCode != nil && fmt.Sprint(*run.ExitCode) == noGo:
		return ErrNoGo
	case run.Phase != belljar.PhaseCompleted:
		return fmt.Errorf("build Go's standard library in image %s: %s: %s", ref, run.ReasonCode, run.Message)
	}
	archive, into := io.Pipe()
	go func() { into.CloseWithError(svc.Files().Archive(ctx, x.ID, folder, belljar.UploadTar, into)) }()
	defer archive.Close()
	return s.replace(s.path(ref, run.ImageDigest), archive)
}

// replace puts the entries of an archive in place of a folder.
func (s *Store) replace(dir string, archive io.Reader) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	s.tidy()
	fresh, err := os.MkdirTemp(s.dir, unfinished)
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	if err := unpack(archive, fresh); err != nil {
		return fmt.Errorf("unpack the Go build cache: %w", err)
	}
	if err := os.Chmod(fresh, 0o755); err != nil { // for the users of sandboxes
		return err
	}
	if err := os.Rename(dir, fresh+".old"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	defer os.RemoveAll(fresh + ".old")
	if err := os.Rename(fresh, dir); err != nil {
		return err
	}
	now := time.Now()
	return errors.Join(os.Chtimes(dir, now, now), s.evict())
}

// evict removes the caches that were used longest ago, until the others are within the bound.
func (s *Store) evict() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	type cache struct {
		name string
		used time.Time
	}
	var all []cache
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && !strings.HasPrefix(e.Name(), unfinished) {
			all = append(all, cache{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b cache) int { return b.used.Compare(a.used) })
	left := s.most
	for _, c := range all {
		dir := filepath.Join(s.dir, c.name)
		if left -= size(dir); left >= 0 {
			continue
		}
		gone := filepath.Join(s.dir, unfinished+belljar.NewID())
		if err = os.Rename(dir, gone); err == nil {
			err = os.RemoveAll(gone)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// size is about what a cache takes on the disk.
func size(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil {
			if info, err := d.Info(); err == nil {
				bytes += (info.Size() + block - 1) / block * block
			}
		}
		return nil
	})
	return bytes
}

// unfinished begins the names of folders that are no caches: not yet, or no longer.
const unfinished = ".new-"

// tidy removes what processes that were killed have left unfinished.
func (s *Store) tidy() {
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), unfinished) && time.Since(info.ModTime()) > fillSeconds*time.Second {
			os.RemoveAll(filepath.Join(s.dir, e.Name()))
		}
	}
}

var entryName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(entryPattern) })

// unpack takes cache entries, and nothing else, out of an archive that a sandbox has made.
func unpack(archive io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	r := tar.NewReader(archive)
	left := int64(mostBytes)
	for range mostEntries {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg || !entryName().MatchString(h.Name) {
			continue // folders, and files of the cache that are no entries
		}
		if left -= h.Size; left < 0 {
			return errors.New("it is too large")
		}
		if err := write(root, h.Name, r); err != nil {
			return err
		}
	}
	return errors.New("it has too many entries")
}

func write(root *os.Root, name string, from io.Reader) error {
	dir := filepath.Dir(name)
	err := root.Mkdir(dir, 0o755)
	if err == nil {
		err = root.Chmod(dir, 0o755) // whatever the umask
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Chmod(0o644), f.Close())
}
