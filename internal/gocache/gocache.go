// Package gocache keeps a Go build cache for each image: the compiled standard library, without which the first build in a
// fresh sandbox takes many seconds. [Store.Fill] makes the image's own toolchain build it, in a separate sandbox; no other
// run ever writes to it. Sandboxes read it below an overlay (runtime.Root.GoCache).
//
// Entries are named by their inputs, so a cache of another version of Go is useless but harmless.
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
	dir  string // folder of caches, named by image
	most int64  // maximum bytes of all caches
}

// New keeps caches in dir, which need not exist.
func New(dir string) *Store { return &Store{dir, mostKept} }

// Folder returns the cache of an image, named by the image's digest or else its name; "" if there is none. The call counts
// as a use.
func (s *Store) Folder(ref, digest string) string {
	dir := s.path(ref, digest)
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return ""
	}
	if now := time.Now(); now.Sub(info.ModTime()) > usePrecision {
		_ = os.Chtimes(dir, now, now) // on failure the cache is evicted too early
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

// The program that fills a cache, and its output folder.
const (
	folder = "cache"
	script = `command -v go >/dev/null || exit ` + noGo + `
GOCACHE=$PWD/` + folder + ` exec go build std`
	noGo = "42"
)

// Limits of the resources that a fill may use, if the server allows as much, and of its result.
const (
	fillSeconds  = 900
	fillMB       = 1024 // workspace
	mostEntries  = 100_000
	mostBytes    = fillMB << 20
	memoryMB     = 2048
	entryPattern = `^[0-9a-f]{2}/[0-9a-f]{64}-[ad]$`
)

// Limits of all caches together. Any user whose image has a program called go can have a cache made.
const (
	mostKept     = 8 << 30 // bytes
	block        = 4096    // the unit of disk space of a file
	usePrecision = time.Hour
)

// ErrNoGo means that an image has no Go.
var ErrNoGo = errors.New("the image has no go command")

// Fill builds the cache of an image in a session of svc, which takes about a minute of CPU time, and replaces an older
// cache. It returns the CPU seconds, also with an error.
func (s *Store) Fill(ctx context.Context, svc belljar.Service, ref string) (cpu float64, err error) {
	me, err := svc.Node().Me(ctx)
	if err != nil {
		return 0, err
	}
	most := me.MaxLimits
	timeout := min(fillSeconds, most.TimeoutSec)
	x, err := svc.Sessions().Create(ctx, belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
		SpecVersion: "1.0", BaseImage: ref, TimeoutSec: timeout, LifetimeSec: 2 * fillSeconds, WorkspaceExec: true,
		Resources: belljar.Resources{WorkspaceMB: min(fillMB, most.WorkspaceMB), MemoryMB: min(memoryMB, most.MemoryMB)},
		AllowWeak: []string{"memory"}, // the limit protects the host, which may be unable to enforce it
		Labels:    map[string]string{"belljar": "go-cache"},
	}})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, svc.Sessions().Delete(context.WithoutCancel(ctx), x.ID)) }()
	run, err := svc.Runs().Start(ctx, belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: "1.0", SessionID: x.ID, Command: []string{"sh", "-c", script}, TimeoutSec: timeout,
		Cwd: ".", // the archive is taken from here, not from the image's WORKDIR
	}})
	if err != nil {
		return 0, err
	}
	run, _, err = belljar.Collect(ctx, svc.Runs(), run.ID)
	if used := run.ResourceUsage; used != nil && used.CPUTimeSec != nil {
		cpu = *used.CPUTimeSec
	}
	switch {
	case err != nil:
		return cpu, err
	case run.ExitCode != nil && fmt.Sprint(*run.ExitCode) == noGo:
		return cpu, ErrNoGo
	case run.Phase != belljar.PhaseCompleted:
		return cpu, fmt.Errorf("build Go's standard library in image %s: %s: %s", ref, run.ReasonCode, run.Message)
	}
	archive, into := io.Pipe()
	go func() { into.CloseWithError(svc.Files().Archive(ctx, x.ID, folder, belljar.UploadTar, into)) }()
	defer archive.Close()
	return cpu, s.replace(s.path(ref, run.ImageDigest), archive)
}

// replace replaces a folder by the entries of an archive.
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

// evict removes the least recently used caches, until the rest are within the limit.
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

// size returns the approximate size of a cache on disk.
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

// unfinished begins the names of folders that are not yet, or no longer, caches.
const unfinished = ".new-"

// tidy removes unfinished folders of killed processes.
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

// unpack extracts only cache entries from an archive that a sandbox has made.
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
			continue // folders, and other files of the cache
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
		err = root.Chmod(dir, 0o755) // regardless of the umask
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
