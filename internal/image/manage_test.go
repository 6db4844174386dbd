//go:build linux

package image_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/flock"
	"github.com/belljar/belljar/internal/image"
)

// hold uses an image like a sandbox. Call the result to end the use.
func hold(t testing.TB, root image.Root) func() {
	t.Helper()
	f, err := os.Open(root.Lock)
	if err != nil {
		t.Fatal(err)
	}
	if err := flock.Try(f, false); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = flock.Unlock(f) // a child that is being forked may have the descriptor for a moment longer
		_ = f.Close()
	}
}

func importTree(t testing.TB, s *image.Store, name string, pairs ...string) belljar.Image {
	t.Helper()
	img, err := s.Import(t.Context(), name, bytes.NewReader(tarOf(t, pairs...)), nil)
	if err != nil {
		t.Fatal(err, errorOf(err))
	}
	return img
}

func names(t testing.TB, s *image.Store) []string {
	t.Helper()
	list, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, i := range list {
		out = append(out, i.Ref)
	}
	return out
}

func TestNames(t *testing.T) {
	o := image.Options{Path: filepath.Join(t.TempDir(), "images"), Aliases: map[string]string{"node:20-alpine": "belljar/node", "mine": "host", "lost": "nowhere"}}
	s := open(t, o)
	python := importTree(t, s, "belljar/python", "f", "python")
	node := importTree(t, s, "belljar/node", "f", "node")
	if _, err := s.Tag(t.Context(), "belljar/python", "python:3.11-slim"); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"belljar/python": python.Digest, "docker.io/belljar/python:latest": python.Digest, "index.docker.io/belljar/python": python.Digest,
		"python:3.11-slim": python.Digest, "docker.io/library/python:3.11-slim": python.Digest, "docker.io/python:3.11-slim": python.Digest,
		"node:20-alpine": node.Digest, "mine": "", python.Digest: python.Digest, python.Digest[:24]: python.Digest,
		"belljar/python@" + python.Digest: python.Digest, "belljar/python:other@" + python.Digest: python.Digest,
	} {
		if root := find(t, s, ref); root.Digest != want {
			t.Errorf("%s is %s, not %s", ref, root.Digest, want)
		}
	}
	for _, ref := range []string{"python", "python:3.11", "belljar/python:3", "node:20", "sha256:123456789012", python.Digest[:18], "other@" + python.Digest, "lost", "docker.io/library/node:20-alpine"} {
		_, err := s.Find(t.Context(), ref)
		wantError(t, err, belljar.CodeImageUnavailable, "python:3.11-slim", "node:20-alpine")
		_, err = s.Get(t.Context(), ref)
		wantError(t, err, belljar.CodeNotFound)
	}

	img, err := s.Tag(t.Context(), "node:20-alpine", "python:3.11-slim") // the name moves
	if err != nil || !slices.Contains(img.Names, "python:3.11-slim") {
		t.Errorf("%+v %v", img, err)
	}
	if root := find(t, s, "python:3.11-slim"); root.Digest != node.Digest {
		t.Error("the name has not moved")
	}
	if img, err := s.Get(t.Context(), python.Digest); err != nil || len(img.Names) != 1 {
		t.Errorf("%+v %v", img, err)
	}
	for _, name := range []string{"", "host", "a b", "a\nb", "sha256:" + strings.Repeat("0", 64), "-x", "../x", strings.Repeat("x", 600)} {
		_, err := s.Tag(t.Context(), "belljar/node", name)
		wantError(t, err, belljar.CodeInvalidRequest, "name")
	}
	_, err = s.Tag(t.Context(), "host", "x")
	wantError(t, err, belljar.CodeInvalidRequest, "host")
	_, err = s.Tag(t.Context(), "absent", "x")
	wantError(t, err, belljar.CodeNotFound)
	if want := []string{"docker.io/belljar/node:latest", "docker.io/belljar/python:latest", "host"}; !slices.Equal(names(t, s), want) {
		t.Errorf("%v", names(t, s))
	}
	if want := []string{"host", "docker.io/belljar/node:latest", "docker.io/belljar/python:latest", "node:20-alpine", "python:3.11-slim"}; !slices.Equal(s.Names(), want) {
		t.Errorf("%v", s.Names())
	}
}

// TestNameMoves tests that a name that moves to another image does not affect users of the first one.
func TestNameMoves(t *testing.T) {
	h := newHub(t)
	one := build(t, spec{layers: [][]byte{tarOf(t, "f", "one")}})
	two := build(t, spec{layers: [][]byte{tarOf(t, "f", "two")}})
	h.put("app:latest", one)
	s := open(t, image.Options{}, h)
	pull(t, s, h.ref("app"))
	before := find(t, s, h.ref("app"))
	h.put("app:latest", two)
	if img := pull(t, s, h.ref("app")); img.Digest != one.digest() {
		t.Error("a pull of what is here has asked the registry")
	}
	img, err := s.Pull(t.Context(), h.ref("app"), true, nil)
	if err != nil || img.Digest != two.digest() {
		t.Fatalf("%+v %v", img, err)
	}
	if content(t, before, "f") != "one" || content(t, find(t, s, h.ref("app")), "f") != "two" {
		t.Error("contents have changed")
	}
	old := find(t, s, one.digest())
	if old.Ref != one.digest() || old.Dir != before.Dir {
		t.Errorf("%+v", old)
	}
	if again, err := s.Pull(t.Context(), h.ref("app"), true, nil); err != nil || again.Digest != two.digest() {
		t.Errorf("%v", err)
	}
}

func TestRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "images")
	s := open(t, image.Options{Path: path, Aliases: map[string]string{"alias": "a"}})
	a := importTree(t, s, "a", "f", "a")
	importTree(t, s, "b", "f", "b")
	if _, err := s.Tag(t.Context(), "a", "second"); err != nil {
		t.Fatal(err)
	}
	for ref, code := range map[string]belljar.Code{
		"host": belljar.CodeInvalidRequest, "": belljar.CodeInvalidRequest, "alias": belljar.CodeInvalidRequest, "absent": belljar.CodeNotFound,
		"No Name": belljar.CodeNotFound,
	} {
		wantError(t, s.Remove(t.Context(), ref), code)
	}
	root := find(t, s, "a")
	end := hold(t, root)
	if img, err := s.Get(t.Context(), "a"); err != nil || !img.InUse {
		t.Errorf("%+v %v", img, err)
	}
	if err := s.Remove(t.Context(), "second"); err != nil { // a name can be removed while the image stays
		t.Fatal(err)
	}
	wantError(t, s.Remove(t.Context(), "a"), belljar.CodeConflict, "in use")
	wantError(t, s.Remove(t.Context(), a.Digest), belljar.CodeConflict)
	if content(t, root, "f") != "a" {
		t.Error("it was touched")
	}
	end()
	if err := s.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root.Dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", root.Dir, err)
	}
	if left := leftovers(t, path); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	if n := len(entries(t, path, "layers")); n != 1 {
		t.Errorf("%d layers are left, want that of b", n)
	}
	wantError(t, s.Remove(t.Context(), "a"), belljar.CodeNotFound)
	again := importTree(t, s, "a", "f", "a")
	if find(t, s, "a").Dir == root.Dir || again.Digest != a.Digest {
		t.Error("an image that comes again must have another folder: an old lock says nothing about it")
	}
}

// TestSharedLayers tests that a layer is removed with the last image that has it.
func TestSharedLayers(t *testing.T) {
	base, x, y := tarOf(t, "base", "b"), tarOf(t, "f", "x"), tarOf(t, "f", "y")
	h := newHub(t)
	h.put("x:latest", build(t, spec{layers: [][]byte{base, x}}))
	h.put("y:latest", build(t, spec{layers: [][]byte{base, y}}))
	path := filepath.Join(t.TempDir(), "images")
	s := open(t, image.Options{Path: path}, h)
	pull(t, s, h.ref("x"))
	var shared []string
	if _, err := s.Pull(t.Context(), h.ref("y"), false, func(p belljar.ImageProgress) {
		if p.Shared {
			shared = append(shared, p.Layer)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(shared, []string{digest(base)}) || h.count(digest(base)) != 1 {
		t.Errorf("shared %v, fetched %d times", shared, h.count(digest(base)))
	}
	ino := func(ref string) uint64 {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(find(t, s, h.ref(ref)).Dir, "base"), &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}
	if ino("x") != ino("y") {
		t.Error("the layer's file is there twice")
	}
	if err := s.Remove(t.Context(), h.ref("x")); err != nil {
		t.Fatal(err)
	}
	if got := content(t, find(t, s, h.ref("y")), "base"); got != "b" || len(entries(t, path, "layers")) != 2 {
		t.Errorf("%q, layers %v", got, entries(t, path, "layers"))
	}
	if err := s.Remove(t.Context(), h.ref("y")); err != nil {
		t.Fatal(err)
	}
	if left := slices.Concat(entries(t, path, "layers"), entries(t, path, "images"), entries(t, path, "locks"), leftovers(t, path)); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestPrune(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "images")
	s := open(t, image.Options{Path: path, Clock: func() time.Time { return now }})
	kib := strings.Repeat("k", 1024)
	for _, n := range []string{"old", "busy", "middle", "new"} {
		importTree(t, s, n, "f", kib+n)
		now = now.Add(time.Hour)
	}
	end := hold(t, find(t, s, "busy"))
	defer end()
	for _, bad := range []belljar.ImagePrune{{}, {All: true, KeepBytes: 1}, {UnusedSec: -1}, {KeepBytes: -1}} {
		_, err := s.Prune(t.Context(), bad)
		wantError(t, err, belljar.CodeInvalidRequest)
	}
	prune := func(p belljar.ImagePrune) (refs []string) {
		t.Helper()
		before := names(t, s)
		done, err := s.Prune(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		after := names(t, s)
		for _, n := range before {
			if !slices.Contains(after, n) {
				refs = append(refs, strings.TrimSuffix(strings.TrimPrefix(n, "docker.io/library/"), ":latest"))
			}
		}
		if len(done.Images) != len(refs) || (done.Bytes >= 1024*int64(len(refs))) != true {
			t.Errorf("%+v, and %v went", done, refs)
		}
		return refs
	}
	if got := prune(belljar.ImagePrune{UnusedSec: 3.5 * 3600}); !slices.Equal(got, []string{"old"}) {
		t.Errorf("unused: %v", got)
	}
	if got := prune(belljar.ImagePrune{KeepBytes: 1 << 30}); len(got) > 0 {
		t.Errorf("all fit: %v", got)
	}
	if _, err := s.Find(t.Context(), "middle"); err != nil { // so that it was used later than new
		t.Fatal(err)
	}
	if got := prune(belljar.ImagePrune{KeepBytes: 2100}); !slices.Equal(got, []string{"new"}) {
		t.Errorf("too much: %v", got)
	}
	if got := prune(belljar.ImagePrune{All: true}); !slices.Equal(got, []string{"middle"}) {
		t.Errorf("all: %v", got)
	}
	end()
	if got := prune(belljar.ImagePrune{All: true}); !slices.Equal(got, []string{"busy"}) {
		t.Errorf("all: %v", got)
	}
	if left := slices.Concat(entries(t, path, "layers"), entries(t, path, "images"), leftovers(t, path)); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestLastUse tests that Find counts as a use, which is recorded once a minute.
func TestLastUse(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC)
	s := open(t, image.Options{Clock: func() time.Time { return now }})
	importTree(t, s, "a", "f", "a")
	for _, step := range []struct{ after, want time.Duration }{{0, 0}, {59 * time.Second, 0}, {2 * time.Second, time.Minute}, {time.Hour, time.Hour + time.Minute}} {
		now = now.Add(step.after)
		find(t, s, "a")
		img, err := s.Get(t.Context(), "a")
		if want := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(step.want); err != nil || !img.LastUsedAt.Equal(want) {
			t.Errorf("after %v: %v, want %v (%v)", step.after, img.LastUsedAt, want, err)
		}
	}
}

// TestListsAtOnce tests that simultaneous checks of an image do not take each other for its users.
func TestListsAtOnce(t *testing.T) {
	s := open(t, image.Options{})
	importTree(t, s, "a", "f", "a")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 300 {
				img, err := s.Get(t.Context(), "a")
				if err != nil || img.InUse {
					t.Errorf("in use: %v, %v", img.InUse, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestTwoStores tests that one process sees another's changes immediately.
func TestTwoStores(t *testing.T) {
	o := image.Options{Path: filepath.Join(t.TempDir(), "images")}
	a, b := open(t, o), open(t, o)
	importTree(t, a, "x", "f", "x")
	find(t, b, "x")
	for i := range 50 { // faster than the resolution of the file system's clock
		name := []string{"aa", "bb"}[i%2]
		if _, err := a.Tag(t.Context(), "x", name); err != nil {
			t.Fatal(err)
		}
		find(t, b, name)
		if err := b.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Find(t.Context(), name); err == nil {
			t.Fatalf("round %d: the name is still there for the other one", i)
		}
	}
	if err := b.Remove(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	_, err := a.Find(t.Context(), "x")
	wantError(t, err, belljar.CodeImageUnavailable)
}

// TestFilesGone tests that an image whose files were deleted by hand counts as missing, and can be pulled again.
func TestFilesGone(t *testing.T) {
	h := newHub(t)
	h.put("app:latest", build(t, spec{layers: [][]byte{tarOf(t, "f", "x")}}))
	o := image.Options{Path: filepath.Join(t.TempDir(), "images")}
	s := open(t, o, h)
	pull(t, s, h.ref("app"))
	gone := func() {
		if err := os.RemoveAll(filepath.Dir(find(t, s, h.ref("app")).Dir)); err != nil {
			t.Fatal(err)
		}
	}
	gone()
	_, err := s.Find(t.Context(), h.ref("app"))
	wantError(t, err, belljar.CodeImageUnavailable)
	pull(t, s, h.ref("app"))
	find(t, s, h.ref("app"))
	gone()
	open(t, o)
	if got := names(t, s); !slices.Equal(got, []string{"host"}) {
		t.Errorf("%v", got)
	}
}

// TestLayerCutShort tests that a layer whose files a loss of power has emptied is unpacked again, or removed, and never
// prevents anything.
func TestLayerCutShort(t *testing.T) {
	h := newHub(t)
	base := tarOf(t, "f", "x")
	h.put("app:latest", build(t, spec{layers: [][]byte{base}}))
	h.put("more:latest", build(t, spec{layers: [][]byte{base, tarOf(t, "g", "y")}}))
	o := image.Options{Path: filepath.Join(t.TempDir(), "images")}
	s := open(t, o, h)
	pull(t, s, h.ref("app"))
	cut := func(files ...string) {
		for _, name := range append(files, "size") {
			if err := os.Truncate(filepath.Join(o.Path, "layers", strings.TrimPrefix(digest(base), "sha256:"), name), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	cut("files/f")
	pull(t, s, h.ref("more"))
	if got := content(t, find(t, s, h.ref("more")), "f"); got != "x" {
		t.Errorf("f has %q", got)
	}
	cut()
	if _, err := s.Prune(t.Context(), belljar.ImagePrune{All: true}); err != nil {
		t.Errorf("%v %+v", err, errorOf(err))
	}
	if left := entries(t, o.Path, "layers"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestDamagedIndex tests that an unreadable index does not count as an empty store.
func TestDamagedIndex(t *testing.T) {
	for name, data := range map[string]string{
		"empty": "", "no JSON": "{", "another version": `{"version":2}`, "a folder elsewhere": `{"version":1,"images":[{"digest":"sha256:` + strings.Repeat("0", 64) + `","folder":"../x"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			if err := os.WriteFile(filepath.Join(path, "index.json"), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := image.Open(image.Options{Path: path})
			wantError(t, err, belljar.CodeInternal, filepath.Join(path, "index.json")+" is damaged")
			if hint := belljar.HintOf(err); !strings.Contains(hint, "the folder "+path+" ") {
				t.Errorf("hint %q", hint)
			}
		})
	}
}
