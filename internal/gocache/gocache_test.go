package gocache

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
)

// entry is the name of a cache entry.
func entry(c string) string { return "a7/" + strings.Repeat(c, 64) + "-d" }

func archiveOf(t *testing.T, headers ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		h.Mode = 0o777
		if h.Typeflag == tar.TypeReg {
			h.Size = 1
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// Only cache entries are extracted from a sandbox's archive, whatever other names it contains.
func TestReplace(t *testing.T) {
	s := New(filepath.Join(t.TempDir(), "caches"))
	if dir := s.Folder("host", ""); dir != "" {
		t.Errorf("there is %s already", dir)
	}
	hostile := archiveOf(t,
		tar.Header{Name: "a7", Typeflag: tar.TypeDir},
		tar.Header{Name: entry("0"), Typeflag: tar.TypeReg},
		tar.Header{Name: "../" + entry("1"), Typeflag: tar.TypeReg},
		tar.Header{Name: "/etc/passwd", Typeflag: tar.TypeReg},
		tar.Header{Name: entry("2"), Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		tar.Header{Name: entry("3"), Typeflag: tar.TypeLink, Linkname: "/etc/passwd"},
		tar.Header{Name: "README", Typeflag: tar.TypeReg},
	)
	if err := s.replace(s.path("host", ""), hostile); err != nil {
		t.Fatal(err)
	}
	if got := names(t, s.dir); !slices.Equal(got, []string{"host", "host/a7", "host/" + entry("0")}) {
		t.Errorf("it has %q", got)
	}
	if err := s.replace(s.path("host", ""), archiveOf(t, tar.Header{Name: entry("4"), Typeflag: tar.TypeReg})); err != nil {
		t.Fatal(err)
	}
	if got := names(t, s.dir); !slices.Equal(got, []string{"host", "host/a7", "host/" + entry("4")}) {
		t.Errorf("after another one it has %q", got)
	}
	if s.Folder("host", "") == "" || s.Folder("host", "sha256:0") != "" {
		t.Error("an image has another's cache")
	}
}

// An incomplete cache does not replace another.
func TestReplaceDamaged(t *testing.T) {
	s := New(t.TempDir())
	whole := archiveOf(t, tar.Header{Name: entry("5"), Typeflag: tar.TypeReg})
	cut := bytes.NewReader(slices.Clone(whole.Bytes()[:512]))
	if err := s.replace(s.path("host", ""), whole); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]*bytes.Reader{
		"cut":          cut,
		"twice a name": bytes.NewReader(archiveOf(t, tar.Header{Name: entry("6"), Typeflag: tar.TypeReg}, tar.Header{Name: entry("6"), Typeflag: tar.TypeReg}).Bytes()),
	} {
		if err := s.replace(s.path("host", ""), bad); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if got := names(t, s.dir); !slices.Equal(got, []string{"host", "host/a7", "host/" + entry("5")}) {
		t.Errorf("it has %q", got)
	}
}

// TestEvict checks that all caches together have a limit, that the least recently used ones are evicted, and that a use
// counts.
func TestEvict(t *testing.T) {
	s := New(t.TempDir())
	s.most = 2 * size(filled(t, New(t.TempDir()), "one"))
	for age, image := range []string{"c", "b", "a"} {
		dir := filled(t, s, image)
		used := time.Now().Add(-time.Duration(4-age) * 24 * time.Hour) // c four days ago, then b and a
		if err := os.Chtimes(dir, used, used); err != nil {
			t.Fatal(err)
		}
	}
	there := func(want ...string) {
		t.Helper()
		entries, err := os.ReadDir(s.dir)
		var got []string
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	there("a", "b")
	if s.Folder("b", "") == "" { // now a is the least recently used
		t.Fatal("b has no cache")
	}
	filled(t, s, "d")
	there("b", "d")
}

// filled makes the cache of an image.
func filled(t *testing.T, s *Store, image string) string {
	t.Helper()
	if err := s.replace(s.path(image, ""), archiveOf(t, tar.Header{Name: entry("7"), Typeflag: tar.TypeReg})); err != nil {
		t.Fatal(err)
	}
	return s.path(image, "")
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		if path != "." {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// little is a service with small limits that refuses sessions.
type little struct {
	belljar.Service
	asked belljar.SessionSpec
}

func (l *little) Node() belljar.Node         { return littleNode{} }
func (l *little) Sessions() belljar.Sessions { return littleSessions{of: l} }

type littleNode struct{ belljar.Node }

func (littleNode) Me(context.Context) (belljar.Me, error) {
	return belljar.Me{MaxLimits: belljar.Limits{WorkspaceMB: 256, MemoryMB: 1024, TimeoutSec: 300}}, nil
}

type littleSessions struct {
	belljar.Sessions
	of *little
}

var errRefused = errors.New("refused")

func (s littleSessions) Create(_ context.Context, req belljar.SessionRequest) (belljar.Session, error) {
	s.of.asked = req.SessionSpec
	return belljar.Session{}, errRefused
}

// somewhere is a service whose sessions start no runs.
type somewhere struct {
	*little
	cwd *string
}

func (s somewhere) Sessions() belljar.Sessions { return somewhereSessions{} }
func (s somewhere) Runs() belljar.Runs         { return somewhereRuns{cwd: s.cwd} }

type somewhereSessions struct{ belljar.Sessions }

func (somewhereSessions) Create(context.Context, belljar.SessionRequest) (belljar.Session, error) {
	return belljar.Session{ID: "s"}, nil
}
func (somewhereSessions) Delete(context.Context, string) error { return nil }

type somewhereRuns struct {
	belljar.Runs
	cwd *string
}

func (s somewhereRuns) Start(_ context.Context, req belljar.RunRequest) (belljar.Run, error) {
	*s.cwd = req.Cwd
	return belljar.Run{}, errRefused
}

// spent is a service whose runs have used CPU time and failed.
type spent struct{ somewhere }

func (spent) Runs() belljar.Runs { return spentRuns{} }

type spentRuns struct{ belljar.Runs }

func (spentRuns) Start(context.Context, belljar.RunRequest) (belljar.Run, error) {
	return belljar.Run{ID: "r"}, nil
}

func (spentRuns) Frames(context.Context, string, uint64) iter.Seq2[belljar.Frame, error] {
	return func(func(belljar.Frame, error) bool) {}
}

func (spentRuns) Get(context.Context, string) (belljar.Run, error) {
	return belljar.Run{Phase: belljar.PhaseTimedOut, ResourceUsage: &belljar.ResourceUsage{CPUTimeSec: new(900.0)}}, nil
}

// A fill that fails reports what it has used.
func TestFillUsage(t *testing.T) {
	if cpu, err := New(t.TempDir()).Fill(t.Context(), spent{somewhere{little: &little{}}}, "golang:1.26"); err == nil || cpu != 900 {
		t.Errorf("%v s, %v", cpu, err)
	}
}

// A fill works in the workspace, from which it takes its archive, even if an image has a WORKDIR, as golang's have.
func TestFillInWorkspace(t *testing.T) {
	var cwd string
	if _, err := New(t.TempDir()).Fill(t.Context(), somewhere{&little{}, &cwd}, "golang:1.26"); !errors.Is(err, errRefused) || cwd != "." {
		t.Errorf("%v: it starts in %q", err, cwd)
	}
}

// A fill requests no more than the server allows. Otherwise it would be refused, and Go programs would always start
// slowly.
func TestFillAllowed(t *testing.T) {
	var l little
	if _, err := New(t.TempDir()).Fill(t.Context(), &l, "host"); !errors.Is(err, errRefused) {
		t.Error(err)
	}
	if x := l.asked; x.Resources.WorkspaceMB != 256 || x.Resources.MemoryMB != 1024 || x.TimeoutSec != 300 {
		t.Errorf("it asks for %+v and %v s", x.Resources, x.TimeoutSec)
	}
}
