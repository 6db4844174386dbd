package shelf

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/room"
)

// file is an entry of a tar stream: a folder if its name ends in a slash, a link if it has a target.
type file struct {
	name, text, target string
	mode               int64
	kind               byte
}

// A disk that gets full while a layer is unpacked stops that, with the error of the disk, and keeps nothing.
func TestWatch(t *testing.T) {
	full := errors.New("full")
	for left, want := range map[int]error{0: full, 1: full, 2: nil} {
		s := &Shelf{Dir: filepath.Join(t.TempDir(), "shelf"), Keep: 1 << 30, Max: 1 << 30}
		l, err := s.Put("a", nil, time.Now(), room.Reader(stream(t, file{name: "x", text: strings.Repeat("x", room.Every)}), func() error {
			if left--; left < 0 {
				return full
			}
			return nil
		}))
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		if entries, _ := os.ReadDir(s.Dir); want != nil && len(entries) > 0 {
			t.Errorf("%v are left", entries)
		}
		l.Release()
	}
}

func stream(t testing.TB, files ...file) io.Reader {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text)), Typeflag: tar.TypeReg, Linkname: f.target, ModTime: time.Unix(1e9, 0)}
		switch {
		case f.kind != 0:
			h.Typeflag, h.Size = f.kind, 0
		case f.target != "":
			h.Typeflag = tar.TypeSymlink
		case f.name[len(f.name)-1] == '/':
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			_, _ = io.WriteString(w, f.text)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestShelf(t *testing.T) {
	s := &Shelf{Dir: filepath.Join(t.TempDir(), "shelf"), Keep: 7*page + 100, Max: 60}
	if l, err := s.Get("a"); l != nil || err != nil {
		t.Fatalf("%v, %v", l, err)
	}
	lock := []belljar.Package{{Name: "x", Version: "1"}}
	now := time.Unix(2e9, 0).UTC()
	first, err := s.Put("a", lock, now, stream(t,
		file{name: "dir/"}, file{name: "dir/tool", text: "tool", mode: 0o4777}, file{name: "deep/er/data", text: "data", mode: 0o600},
		file{name: "dir/link", target: "../deep/er/data"}))
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"dir": os.ModeDir | 0o755, "dir/tool": 0o755, "deep/er/data": 0o644, "": os.ModeDir | 0o755} {
		if info, err := os.Stat(filepath.Join(first.Dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	for _, name := range []string{"dir", "dir/tool", "dir/link"} {
		if info, err := os.Lstat(filepath.Join(first.Dir, name)); err != nil || !info.ModTime().Equal(time.Unix(1e9, 0)) {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(first.Dir, "dir/link")); err != nil || string(raw) != "data" {
		t.Errorf("%q, %v", raw, err)
	}
	again, err := s.Get("a")
	if err != nil || again == nil || again.Dir != first.Dir || !again.Resolved.Equal(now) || len(again.Lock) != 1 || again.Lock[0] != lock[0] {
		t.Fatalf("%+v, %v", again, err)
	}
	later := now.Add(time.Hour)
	if err := s.Renew("a", later); err != nil {
		t.Fatal(err)
	}
	if l, err := s.Get("a"); err != nil || !l.Resolved.Equal(later) {
		t.Errorf("%+v, %v", l, err)
	} else {
		l.Release()
	}
	held, err := s.Hold(first.Dir)
	if err != nil || held == nil {
		t.Errorf("%v, %v", held, err)
	}
	if l, err := s.Hold("/etc"); l != nil || err != nil {
		t.Errorf("a folder elsewhere: %v, %v", l, err)
	}

	// Above the bound, unused folders are evicted, the least recently used first.
	b, err := s.Put("b", nil, now, stream(t, file{name: "big", text: strings.Repeat("x", 58)}))
	if err != nil {
		t.Fatal(err)
	}
	b.Release()
	c, err := s.Put("c", nil, now, stream(t, file{name: "big", text: strings.Repeat("x", 58)}))
	if err != nil {
		t.Fatal(err)
	}
	if l, _ := s.Get("b"); l != nil {
		t.Error("b stays, although a is held and c is new")
	}
	if l, _ := s.Get("a"); l == nil {
		t.Error("a was swept while it is held")
	} else {
		l.Release()
	}
	for _, l := range []*Layer{first, again, held, c} {
		l.Release()
		l.Release()
	}
	// A layer without a key is removed.
	if next, err := s.Put("a", nil, now, stream(t, file{name: "new", text: "n"})); err != nil {
		t.Error(err)
	} else {
		next.Release()
	}
	if _, err := os.Stat(first.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the former layer of a: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir, "layer-*")); len(left) != 4 { // two, each with its lock file
		t.Errorf("%v", left)
	}
}

// TestUnpackRefuses checks that nothing is created outside a layer's folder, and that a refused layer leaves nothing over.
func TestUnpackRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		files []file
		want  error
	}{
		"above":               {[]file{{name: "../x", text: "x"}}, ErrBad},
		"absolute":            {[]file{{name: "/x", text: "x"}}, ErrBad},
		"above in the middle": {[]file{{name: "a/../../x", text: "x"}}, ErrBad},
		"link away":           {[]file{{name: "l", target: "/etc/passwd"}}, ErrBad},
		"link above":          {[]file{{name: "a/l", target: "../../x"}}, ErrBad},
		"hard link":           {[]file{{name: "l", kind: tar.TypeLink, target: "x"}}, ErrBad},
		"device":              {[]file{{name: "d", kind: tar.TypeChar}}, ErrBad},
		"pipe":                {[]file{{name: "p", kind: tar.TypeFifo}}, ErrBad},
		"too large":           {[]file{{name: "a", text: "123456"}, {name: "b", text: "123456"}}, ErrTooLarge},
		"a name twice":        {[]file{{name: "a", text: "1"}, {name: "a", text: "2"}}, os.ErrExist},
		"a deep name":         {[]file{{name: strings.Repeat("d/", 256) + "f"}}, ErrBad},
		"a deep folder":       {[]file{{name: strings.Repeat("d/", 257)}}, ErrBad},
		"a long name":         {[]file{{name: strings.Repeat(strings.Repeat("d", 240)+"/", 17) + "f"}}, ErrBad},
		"a link, then below":  {[]file{{name: "d/"}, {name: "l", target: "d"}, {name: "l/../../x", text: "x"}}, ErrBad},
	} {
		dir := t.TempDir()
		s := &Shelf{Dir: filepath.Join(dir, "shelf"), Keep: 100, Max: 10}
		l, err := s.Put("key", nil, time.Now(), stream(t, c.files...))
		if !errors.Is(err, c.want) || l != nil {
			t.Errorf("%s: %v, %v", name, l, err)
		}
		left, _ := os.ReadDir(s.Dir)
		around, _ := os.ReadDir(dir)
		if len(left) != 0 || len(around) != 1 {
			t.Errorf("%s: %v and %v are left", name, left, around)
		}
	}
	var huge bytes.Buffer
	w := tar.NewWriter(&huge)
	for _, h := range []tar.Header{{Name: "a", Size: 1}, {Name: "b", Size: math.MaxInt64, Format: tar.FormatGNU}} {
		_ = w.WriteHeader(&h)
		_, _ = w.Write([]byte("x"))
	}
	if _, err := (&Shelf{Dir: t.TempDir(), Max: 10}).Put("key", nil, time.Now(), &huge); !errors.Is(err, ErrTooLarge) {
		t.Errorf("sizes beyond 64 bits: %v", err)
	}
	if _, err := (&Shelf{Dir: t.TempDir(), Max: 10}).Put("key", nil, time.Now(), bytes.NewReader([]byte("no tar stream, "+string(make([]byte, 600))))); !errors.Is(err, ErrBad) {
		t.Errorf("%v", err)
	}
}

// TestTally checks that folders implied by names count, and that names count with their length.
func TestTally(t *testing.T) {
	deep := strings.Repeat("d/", 254)
	long := strings.Repeat("n", 4000)
	for what, c := range map[string]struct {
		name func(n int) string
		most int
	}{
		"a file in as many folders": {func(n int) string { return fmt.Sprintf("%d/%sf", n, deep) }, maxEntries / 256},
		"a file in one folder":      {func(n int) string { return fmt.Sprintf("d/%d", n) }, maxEntries - 1},
		"a long name":               {func(int) string { return long }, maxNames / 4000},
	} {
		n, made := 0, tally{folders: map[string]bool{}}
		for n <= c.most && made.add(c.name(n), false) == nil {
			n++
		}
		if n != c.most {
			t.Errorf("%s: %d and not %d are taken", what, n, c.most)
		}
	}
	same := tally{folders: map[string]bool{}}
	for range 3 {
		if err := same.add("a/b/c", true); err != nil {
			t.Error(err)
		}
	}
	if same.entries != 3 {
		t.Errorf("a/b/c three times is %d folders", same.entries)
	}
}

// FuzzUnpack checks that no stream creates anything outside its folder.
func FuzzUnpack(f *testing.F) {
	var raw bytes.Buffer
	_, _ = io.Copy(&raw, stream(f, file{name: "a/"}, file{name: "a/b", text: "x"}, file{name: "a/l", target: "b"}))
	f.Add(raw.Bytes())
	f.Fuzz(func(t *testing.T, raw []byte) {
		top := t.TempDir()
		dir := filepath.Join(top, "a", "b")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		_, _, _ = unpack(bytes.NewReader(raw), dir, 1<<20, len(raw)%2 == 0)
		for _, above := range []string{top, filepath.Join(top, "a")} {
			if entries, err := os.ReadDir(above); err != nil || len(entries) != 1 {
				t.Fatalf("%s: %v, %v", above, entries, err)
			}
		}
	})
}

// putX stores a layer with one small file.
func putX(t *testing.T, s *Shelf, key string) *Layer {
	t.Helper()
	l, err := s.Put(key, nil, time.Now(), stream(t, file{name: "x", text: "x"}))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestManyEmptyFolders checks that files, folders and links count towards Keep as the space that they use on a disk.
func TestManyEmptyFolders(t *testing.T) {
	s := &Shelf{Dir: filepath.Join(t.TempDir(), "shelf"), Keep: 300 * page, Max: 60}
	var files []file
	for i := range 100 {
		files = append(files, file{name: fmt.Sprintf("%d/below/", i)})
	}
	for _, key := range []string{"a", "b"} {
		l, err := s.Put(key, nil, time.Now(), stream(t, files...))
		if err != nil {
			t.Fatal(err)
		}
		l.Release()
	}
	if keys := s.Keys(); !slices.Equal(keys, []string{"b"}) {
		t.Errorf("%q are kept", keys)
	}
}

// TestForget checks that a layer without a key is removed with its last use, but not at the end of a process whose sandboxes continue.
func TestForget(t *testing.T) {
	s := &Shelf{Dir: filepath.Join(t.TempDir(), "shelf"), Keep: 1 << 20, Max: 60}
	put := func(key string) *Layer { return putX(t, s, key) }
	wantLeft := func(what string, want int) {
		t.Helper()
		if left, err := os.ReadDir(s.Dir); err != nil || len(left) != want {
			t.Errorf("%s: %v, %v", what, left, err)
		}
	}
	put("a").Release()
	wantLeft("released", 3) // its record, its folder and its lock
	s.Forget("a")
	s.Forget("a")
	wantLeft("forgotten", 0)

	first := put("a")
	second, err := s.Get("a")
	if err != nil || second == nil {
		t.Fatal(second, err)
	}
	s.Forget("a")
	if l, err := s.Get("a"); err != nil || l == nil || l.Dir != first.Dir {
		t.Errorf("a forgotten one that is held: %v, %v", l, err)
	} else {
		l.Release()
	}
	put("a").Release() // another layer, which stays
	first.Release()
	wantLeft("one user is left", 5)
	if _, err := os.Stat(filepath.Join(second.Dir, "x")); err != nil {
		t.Error(err)
	}
	second.Release()
	second.Release()
	wantLeft("none is left", 3)
	s.Forget("a")

	// The next process holds the layers of its sandboxes, and sweeps.
	put("b").Leave()
	held := put("c")
	s.Forget("c")
	held.Leave()
	wantLeft("after a process", 6)
	next := &Shelf{Dir: s.Dir, Keep: 1 << 20}
	if held, err = next.Hold(held.Dir); err != nil || held == nil {
		t.Fatal(held, err)
	}
	next.Sweep()
	wantLeft("swept", 6)
	held.Release()
	wantLeft("released in the next process", 3)
	next.Forget("b")

	// A recalled layer stays.
	held = put("e")
	s.Forget("e")
	s.Recall("e")
	held.Release()
	wantLeft("recalled", 3)
	s.Forget("e")
	s.Recall("e")
	wantLeft("forgotten again", 0)

	made, err := s.Make(func(dir string) error { return os.WriteFile(filepath.Join(dir, "x"), nil, 0o600) })
	if err != nil {
		t.Fatal(err)
	}
	also, err := s.Hold(made.Dir)
	if err != nil {
		t.Fatal(err)
	}
	made.Release()
	wantLeft("made without a key", 2)
	also.Release()
	if made, err = s.Make(func(string) error { return nil }); err == nil {
		err = s.Adopt("d", made, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	made.Release()
	wantLeft("adopted", 3)

	// If processes share a shelf, the one with the last use removes a layer that another has forgotten or replaced.
	other := &Shelf{Dir: s.Dir, Keep: 1 << 20, Max: 60}
	if held, err = other.Get("d"); err != nil || held == nil {
		t.Fatal(held, err)
	}
	s.Forget("d")
	held.Release()
	wantLeft("forgotten by another process", 0)
	put("f").Release()
	if held, err = other.Get("f"); err != nil || held == nil {
		t.Fatal(held, err)
	}
	put("f").Release()
	held.Release()
	wantLeft("replaced by another process", 3)
}

// TestDropByAnOldRecord checks that what a sweep has read before does not cost a key its layer: the key may be newer, or have a newer layer.
func TestDropByAnOldRecord(t *testing.T) {
	s := &Shelf{Dir: filepath.Join(t.TempDir(), "shelf"), Keep: 1 << 20, Max: 60}
	put := func(key string) *Layer { return putX(t, s, key) }
	wantLayer := func(key, dir string) {
		t.Helper()
		l, err := s.Get(key)
		if err != nil || l == nil || l.Dir != dir {
			t.Errorf("%s: %v, %v", key, l, err)
		}
		l.Release()
	}
	adopted, err := s.Make(func(string) error { return nil })
	if err == nil {
		err = s.Adopt("adopted", adopted, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	adopted.Release()
	if s.drop(record{Folder: filepath.Base(adopted.Dir)}, "") {
		t.Error("a layer that got a key was removed")
	}
	wantLayer("adopted", adopted.Dir)

	put("replaced").Release()
	old, err := s.read("replaced")
	if err != nil {
		t.Fatal(err)
	}
	second := put("replaced")
	second.Release()
	s.drop(old, "replaced")
	wantLayer("replaced", second.Dir)

	recalled := put("recalled")
	s.Forget("recalled")
	if old, err = s.read("recalled"); err != nil {
		t.Fatal(err)
	}
	s.Recall("recalled")
	recalled.Release()
	if s.drop(old, "recalled") {
		t.Error("a layer that was recalled was removed")
	}
	wantLayer("recalled", recalled.Dir)
}

// TestNewLockDuringASweep checks that layers can be made while another process, which finds their locks at any moment, sweeps.
func TestNewLockDuringASweep(t *testing.T) {
	s := &Shelf{Dir: t.TempDir(), Keep: 100}
	other := &Shelf{Dir: s.Dir, Keep: 1 << 20}
	var sweeps sync.WaitGroup
	defer sweeps.Wait()
	over := make(chan struct{})
	defer close(over)
	for range 2 {
		sweeps.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					other.Sweep()
				}
			}
		})
	}
	for i := range 300 {
		lock, err := s.newLock()
		if err != nil {
			t.Fatalf("after %d: %v", i, err)
		}
		if _, err := os.Stat(lock.Name()); err != nil {
			t.Fatalf("after %d: %v", i, err)
		}
		_ = lock.Close()
	}
}

// What a killed process was making stays for an hour: another one may be at work.
func TestSweepOfKills(t *testing.T) {
	s := &Shelf{Dir: t.TempDir(), Keep: 1 << 20}
	for _, name := range []string{"old.new", "recent.new"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, name, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(filepath.Join(s.Dir, "old.new"), before, before); err != nil {
		t.Fatal(err)
	}
	s.Sweep()
	if got, _ := os.ReadDir(s.Dir); len(got) != 1 || got[0].Name() != "recent.new" {
		t.Errorf("%v", got)
	}
}
