package dir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/blob/blobtest"
	"github.com/belljar/belljar/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

func open(t testing.TB) (*Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "artifacts")
	s, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, path
}

func TestConformance(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store { s, _ := open(t); return s })
}

func TestClash(t *testing.T) {
	s, _ := open(t)
	blobtest.Clash(t, s)
}

const run = "0199a326-cc88-7abc-8def-0123456789ab"

func put(t testing.TB, s *Store, k blob.Key) {
	t.Helper()
	if _, err := s.Put(t.Context(), k, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
}

func TestLayout(t *testing.T) {
	s, path := open(t)
	put(t, s, blob.Key{UserID: "user_123", RunID: run, Path: "dist/app.js"})
	file := filepath.Join(path, "user_123", "runs", run, "artifacts", "dist", "app.js")
	for name := file; name != path; name = filepath.Dir(name) {
		info, err := os.Lstat(name)
		if err != nil {
			t.Fatal(err)
		}
		want := os.FileMode(0o700)
		if name == file {
			want = 0o600
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	if list, _ := filepath.Glob(filepath.Join(path, "*", "runs", "*", "put-*")); len(list) != 0 {
		t.Errorf("left over: %v", list)
	}
}

// Deleting a user's last run leaves nothing over.
func TestDeleteLeavesNothing(t *testing.T) {
	s, path := open(t)
	for _, user := range blobtest.Users() {
		put(t, s, blob.Key{UserID: user, RunID: run, Path: "a/b/c"})
		put(t, s, blob.Key{UserID: user, RunID: "other", Path: "a"})
		if folder := userFolder(user); hashed(folder) { // an interrupted write of the name
			if err := os.WriteFile(filepath.Join(path, folder, temporaryPrefix+"x"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, id := range []string{run, "other"} {
		for _, user := range blobtest.Users() {
			if err := s.Delete(t.Context(), user, id); err != nil {
				t.Error(err)
			}
		}
	}
	if left, err := os.ReadDir(path); err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestUserFolder(t *testing.T) {
	for user, want := range map[string]string{
		"user_123": "user_123", "a@example.org": "a@example.org", "": "%", "%": "%25", ".": "%2E", "..": "%2E.", "a/b": "a%2Fb",
		"\x00": "%00", "~": "%7E", "jörg": "j%C3%B6rg",
	} {
		if got := userFolder(user); got != want {
			t.Errorf("folder of %q is %q, want %q", user, got, want)
		}
	}
}

func FuzzUserFolder(f *testing.F) {
	for _, user := range blobtest.Users() {
		f.Add(user)
	}
	f.Fuzz(func(t *testing.T, user string) {
		folder := userFolder(user)
		if len(folder) > longest || folder != filepath.Base(folder) || !filepath.IsLocal(folder) || folder == "." {
			t.Fatalf("folder of %q is %q", user, folder)
		}
		if got, ok := folderUser(folder); !hashed(folder) && (!ok || got != user) {
			t.Fatalf("folder %q of %q is read as %q", folder, user, got)
		}
		if got, ok := folderUser(user); ok && userFolder(got) != user {
			t.Fatalf("two folders of %q: %q, %q", got, user, userFolder(got))
		}
	})
}

func TestTooLong(t *testing.T) {
	s, _ := open(t)
	for _, p := range []string{strings.Repeat("n", 256), "a/" + strings.Repeat("n", 300) + "/b", strings.Repeat("d/", 2048) + "x"} {
		_, err := s.Put(t.Context(), blob.Key{UserID: "user", RunID: run, Path: p}, strings.NewReader("x"))
		if belljar.CodeOf(err) != belljar.CodeInvalidRequest {
			t.Errorf("put of %d bytes of path: %v", len(p), err)
		}
		if _, err := s.Open(t.Context(), blob.Key{UserID: "user", RunID: run, Path: p}, 0); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("open of %d bytes of path: %v", len(p), err)
		}
	}
	put(t, s, blob.Key{UserID: "user", RunID: run, Path: strings.Repeat(strings.Repeat("d", 203)+"/", 20) + "x"})
	if err := s.Sync(t.Context(), "user", run); err != nil {
		t.Error(err)
	}
	if err := s.Delete(t.Context(), "user", run); err != nil {
		t.Error(err)
	}
}

// A link planted in the folder is not followed.
func TestLinks(t *testing.T) {
	s, path := open(t)
	put(t, s, blob.Key{UserID: "user", RunID: run, Path: "a"})
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(path, "user", "runs", run, "artifacts")
	if err := os.Symlink(outside, filepath.Join(folder, "out")); err != nil {
		t.Fatal(err)
	}
	k := blob.Key{UserID: "user", RunID: run, Path: "out/secret"}
	if r, err := s.Open(t.Context(), k, 0); err == nil {
		r.Close()
		t.Error("a link leads out")
	}
	k.Path = "out/new"
	if _, err := s.Put(t.Context(), k, strings.NewReader("x")); err == nil {
		t.Error("a link leads out")
	}
	if err := s.Delete(t.Context(), "user", run); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(outside); err != nil || len(list) != 1 {
		t.Errorf("outside there are %v, %v", list, err)
	}
}

// Artifacts survive a restart.
func TestReopen(t *testing.T) {
	s, path := open(t)
	for _, user := range blobtest.Users() {
		put(t, s, blob.Key{UserID: user, RunID: run, Path: "a"})
	}
	s.Close()
	if err := os.MkdirAll(filepath.Join(path, "not%a%user", "runs", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	keys, err := s.Orphans(t.Context(), time.Now().Add(time.Hour), func(string) bool { return false })
	if err == nil {
		t.Error("an orphaned folder is ignored without an error")
	}
	if len(keys) != len(blobtest.Users()) {
		t.Errorf("%d orphans, want %d", len(keys), len(blobtest.Users()))
	}
	for _, k := range keys {
		k.Path = "a"
		r, err := s.Open(t.Context(), k, 0)
		if err != nil {
			t.Errorf("open: %v", err)
			continue
		}
		r.Close()
	}
}

func BenchmarkPutSync(b *testing.B) {
	s, _ := open(b)
	content := bytes.Repeat([]byte("x"), 64<<10)
	for b.Loop() {
		id := belljar.NewID()
		if _, err := s.Put(b.Context(), blob.Key{UserID: "user", RunID: id, Path: "dist/out"}, bytes.NewReader(content)); err != nil {
			b.Fatal(err)
		}
		if err := s.Sync(b.Context(), "user", id); err != nil {
			b.Fatal(err)
		}
	}
}

// A kept draft is a normal artifact, and a discarded one leaves nothing over.
func TestDraft(t *testing.T) {
	s, path := open(t)
	d, can := blob.Store(s).(blob.Drafter)
	if !can {
		t.Skip("not on this system")
	}
	k := blob.Key{UserID: "user_123", RunID: run, Path: "a/b"}
	put(t, s, k)
	draft, err := d.Draft()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("not on this file system: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = draft.WriteString("written before")
	if err = errors.Join(err, d.Keep(k, draft), s.Sync(t.Context(), k.UserID, k.RunID), draft.Close()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(path, "user_123", "runs", run, "artifacts", "a", "b")
	if raw, err := os.ReadFile(file); err != nil || string(raw) != "written before" {
		t.Errorf("%q, %v", raw, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	other, err := d.Draft()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Keep(blob.Key{UserID: "user_123", RunID: run, Path: "a"}, other); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Error("it replaces a folder: ", err)
	}
	if err := errors.Join(other.Close(), s.Delete(t.Context(), k.UserID, k.RunID)); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(path); err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}
