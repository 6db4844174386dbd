// Package blobtest is the conformance suite of blob stores. Every implementation must pass it.
package blobtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
)

// Run runs the suite. open returns an empty store and registers its cleanup with the test.
func Run(t *testing.T, open func(t *testing.T) blob.Store) {
	t.Run("bytes come back", func(t *testing.T) { testBytes(t, open(t)) })
	t.Run("any user", func(t *testing.T) { testUsers(t, open(t)) })
	t.Run("bad keys", func(t *testing.T) { testBadKeys(t, open(t)) })
	t.Run("odd paths", func(t *testing.T) { testPaths(t, open(t)) })
	t.Run("replace", func(t *testing.T) { testReplace(t, open(t)) })
	t.Run("all or nothing", func(t *testing.T) { testAllOrNothing(t, open(t)) })
	t.Run("cancelled", func(t *testing.T) { testCancelled(t, open(t)) })
	t.Run("delete", func(t *testing.T) { testDelete(t, open(t)) })
	t.Run("delete while read", func(t *testing.T) { testDeleteWhileRead(t, open(t)) })
	t.Run("sync", func(t *testing.T) { testSync(t, open(t)) })
	t.Run("orphans", func(t *testing.T) { testOrphans(t, open(t)) })
	t.Run("many at once", func(t *testing.T) { testConcurrent(t, open(t)) })
	t.Run("close", func(t *testing.T) { testClose(t, open(t)) })
}

func testBytes(t *testing.T, s blob.Store) {
	for _, size := range []int{0, 1, 4096, 1 << 20} {
		content := bytes.Repeat([]byte{0, 255, 'x', '\n'}, size/4+1)[:size]
		k := key("user", fmt.Sprintf("dist/%d.bin", size))
		info := put(t, s, k, content)
		sum := sha256.Sum256(content)
		if want := (blob.Info{Size: int64(size), Digest: "sha256:" + hex.EncodeToString(sum[:])}); info != want {
			t.Errorf("info %+v, want %+v", info, want)
		}
		for _, offset := range []int64{0, 1, int64(size) / 2, int64(size), int64(size) + 10} {
			want := content[min(offset, int64(size)):]
			if got := get(t, s, k, offset); !bytes.Equal(got, want) {
				t.Errorf("%d bytes from %d, want %d", len(got), offset, len(want))
			}
		}
		if r, err := s.Open(t.Context(), k, -1); err == nil {
			r.Close()
			t.Error("a negative offset is taken")
		}
	}
}

// Users returns user names that must neither collide nor escape from the store.
func Users() []string {
	return []string{
		"", ".", "..", "...", "/", "a/b", "a%2Fb", "../../etc", "user\x00", "nul\x00byte", "\xff\xfe", "~", "~user", "%", "%%", "a b",
		"user", "runs", "user_id", "jörg", "a@example.org", "CON", "-", "--rf", "\n", strings.Repeat("x", 300), strings.Repeat("x", 301),
		strings.Repeat("/", 300), strings.Repeat("é", 100), "http://idp.example/?sub=1&x=2",
	}
}

func testUsers(t *testing.T, s blob.Store) {
	for _, user := range Users() {
		put(t, s, key(user, "name"), []byte("of "+user))
	}
	for _, user := range Users() {
		if got := get(t, s, key(user, "name"), 0); string(got) != "of "+user {
			t.Errorf("user %.40q reads %.40q", user, got)
		}
	}
	keys, err := s.Orphans(t.Context(), time.Now().Add(time.Hour), func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range keys {
		got = append(got, k.UserID)
	}
	want := Users()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("orphans belong to %.60q, want %.60q", got, want)
	}
	for _, user := range Users() {
		if err := s.Delete(t.Context(), user, run); err != nil {
			t.Errorf("delete of user %.40q: %v", user, err)
		}
		absent(t, s, key(user, "name"))
	}
}

func testBadKeys(t *testing.T, s blob.Store) {
	for _, k := range []blob.Key{
		{UserID: "u", RunID: run}, {UserID: "u", RunID: run, Path: "."}, {UserID: "u", RunID: run, Path: "../x"},
		{UserID: "u", RunID: run, Path: "/x"}, {UserID: "u", RunID: run, Path: "a//b"}, {UserID: "u", RunID: run, Path: "./a"},
		{UserID: "u", RunID: run, Path: "a\x00"}, {UserID: "u", RunID: run, Path: "a/"}, {UserID: "u", RunID: run, Path: "\xff"},
		{UserID: "u", RunID: "..", Path: "x"}, {UserID: "u", RunID: "", Path: "x"}, {UserID: "u", RunID: "a/b", Path: "x"},
	} {
		if _, err := s.Put(t.Context(), k, strings.NewReader("x")); err == nil {
			t.Errorf("%+v is taken", k)
		}
		absent(t, s, k)
		if err := s.Delete(t.Context(), k.UserID, k.RunID); err != nil {
			t.Errorf("delete %+v: %v", k, err)
		}
	}
}

func testPaths(t *testing.T, s blob.Store) {
	paths := []string{
		"a", "A/b", "a b/c\nd", "-rf", "…/ünï", "put-1", "artifacts", "x/put-1", "con", "a\\b", "%2e%2e", "...", "x/..y",
		strings.Repeat("n", 255), strings.Repeat("d/", 100) + "deep", "*", "?", "\"quoted\"",
	}
	for _, p := range paths {
		put(t, s, key("user", p), []byte(p))
	}
	for _, p := range paths {
		if got := get(t, s, key("user", p), 0); string(got) != p {
			t.Errorf("%.40q reads %.40q", p, got)
		}
	}
	for _, p := range []string{"A", "x", strings.Repeat("d/", 99) + "d", "missing", "missing/too", "a/b", strings.Repeat("m", 255)} {
		absent(t, s, key("user", p))
	}
	if err := s.Sync(t.Context(), "user", run); err != nil {
		t.Error(err)
	}
	if err := s.Delete(t.Context(), "user", run); err != nil {
		t.Error(err)
	}
	for _, p := range paths {
		absent(t, s, key("user", p))
	}
}

func testReplace(t *testing.T, s blob.Store) {
	k := key("user", "a/b")
	put(t, s, k, []byte("the first, which is longer"))
	old, err := s.Open(t.Context(), k, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	put(t, s, k, []byte("the second"))
	if got := get(t, s, k, 0); string(got) != "the second" {
		t.Errorf("reads %q", got)
	}
	if got, err := io.ReadAll(old); err != nil || string(got) != "the first, which is longer" {
		t.Errorf("a reader under way reads %q, %v", got, err)
	}
}

func testAllOrNothing(t *testing.T, s blob.Store) {
	broken := errors.New("connection lost")
	half := func() io.Reader { return io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken)) }
	if _, err := s.Put(t.Context(), key("user", "new"), half()); !errors.Is(err, broken) {
		t.Errorf("Put: %v", err)
	}
	absent(t, s, key("user", "new"))
	put(t, s, key("user", "old"), []byte("whole"))
	if _, err := s.Put(t.Context(), key("user", "old"), half()); !errors.Is(err, broken) {
		t.Errorf("Put: %v", err)
	}
	put(t, s, key("user", "other"), []byte("z"))
	if got := get(t, s, key("user", "old"), 0); string(got) != "whole" {
		t.Errorf("reads %q", got)
	}
}

func testCancelled(t *testing.T, s blob.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	endless := readerFunc(func(b []byte) (int, error) { cancel(); return min(len(b), 1), nil })
	if _, err := s.Put(ctx, key("user", "x"), endless); !errors.Is(err, context.Canceled) {
		t.Errorf("Put: %v, want context.Canceled", err)
	}
	absent(t, s, key("user", "x"))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func testDelete(t *testing.T, s blob.Store) {
	other := blob.Key{UserID: "user", RunID: "other", Path: "a"}
	put(t, s, key("user", "a"), []byte("x"))
	put(t, s, key("user", "b/c"), []byte("x"))
	put(t, s, other, []byte("stays"))
	for range 2 {
		if err := s.Delete(t.Context(), "user", run); err != nil {
			t.Fatal(err)
		}
	}
	absent(t, s, key("user", "a"))
	absent(t, s, key("user", "b/c"))
	if got := get(t, s, other, 0); string(got) != "stays" {
		t.Errorf("another run reads %q", got)
	}
	put(t, s, key("user", "a"), []byte("again"))
	if got := get(t, s, key("user", "a"), 0); string(got) != "again" {
		t.Errorf("reads %q", got)
	}
}

func testDeleteWhileRead(t *testing.T, s blob.Store) {
	content := bytes.Repeat([]byte("0123456789"), 1<<16)
	put(t, s, key("user", "a"), content)
	r, err := s.Open(t.Context(), key("user", "a"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	head := make([]byte, 10)
	if _, err := io.ReadFull(r, head); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "user", run); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(r); err != nil || !bytes.Equal(append(head, rest...), content) {
		t.Errorf("reader got %d bytes more, %v", len(rest), err)
	}
	for range 2 {
		if err := r.Close(); err != nil && !strings.Contains(err.Error(), "already closed") {
			t.Error(err)
		}
	}
}

func testSync(t *testing.T, s blob.Store) {
	if err := s.Sync(t.Context(), "nobody", run); err != nil {
		t.Errorf("sync of nothing: %v", err)
	}
	for i := range 30 {
		put(t, s, key("user", fmt.Sprintf("d%d/f%d", i%3, i)), []byte("x"))
	}
	for range 2 {
		if err := s.Sync(t.Context(), "user", run); err != nil {
			t.Error(err)
		}
	}
}

func testOrphans(t *testing.T, s blob.Store) {
	put(t, s, blob.Key{UserID: "a", RunID: "known", Path: "x"}, nil)
	put(t, s, blob.Key{UserID: "a", RunID: "lost", Path: "d/x"}, nil)
	put(t, s, blob.Key{UserID: "b", RunID: "lost", Path: "x"}, nil)
	known := func(id string) bool { return id == "known" }
	keys, err := s.Orphans(t.Context(), time.Now().Add(-time.Hour), known)
	if err != nil || len(keys) != 0 {
		t.Errorf("orphans from before they were put: %v, %v", keys, err)
	}
	keys, err = s.Orphans(t.Context(), time.Now().Add(time.Hour), known)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(keys, func(a, b blob.Key) int { return strings.Compare(a.UserID, b.UserID) })
	want := []blob.Key{{UserID: "a", RunID: "lost"}, {UserID: "b", RunID: "lost"}}
	if !slices.Equal(keys, want) {
		t.Errorf("orphans %v, want %v", keys, want)
	}
	for _, k := range keys {
		if err := s.Delete(t.Context(), k.UserID, k.RunID); err != nil {
			t.Error(err)
		}
	}
	keys, err = s.Orphans(t.Context(), time.Now().Add(time.Hour), known)
	if err != nil || len(keys) != 0 {
		t.Errorf("orphans left: %v, %v", keys, err)
	}
}

// testConcurrent creates and deletes runs of a few users concurrently.
func testConcurrent(t *testing.T, s blob.Store) {
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			user := fmt.Sprint("user ", w%2)
			for i := range 25 {
				run := fmt.Sprintf("run-%d-%d", w, i)
				k := blob.Key{UserID: user, RunID: run, Path: "dist/out"}
				content := bytes.Repeat([]byte(run), 1000)
				if _, err := s.Put(t.Context(), k, bytes.NewReader(content)); err != nil {
					t.Errorf("put: %v", err)
					return
				}
				if got := get(t, s, k, 0); !bytes.Equal(got, content) {
					t.Errorf("%s reads %d bytes", run, len(got))
				}
				if err := s.Delete(t.Context(), user, run); err != nil {
					t.Errorf("delete: %v", err)
				}
			}
		})
	}
	for w := range 4 { // writers of one run
		all.Go(func() {
			for i := range 25 {
				k := key("user", fmt.Sprintf("%d/%d", w, i))
				if _, err := s.Put(t.Context(), k, strings.NewReader(k.Path)); err != nil {
					t.Errorf("put: %v", err)
				}
				if got := get(t, s, k, 0); string(got) != k.Path {
					t.Errorf("%s reads %q", k.Path, got)
				}
			}
		})
	}
	all.Wait()
}

func testClose(t *testing.T, s blob.Store) {
	put(t, s, key("user", "a"), []byte("x"))
	r, err := s.Open(t.Context(), key("user", "a"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "x" {
		t.Errorf("a reader under way reads %q, %v", got, err)
	}
	if _, err := s.Put(context.Background(), key("user", "b"), strings.NewReader("x")); err == nil {
		t.Error("Put after Close succeeds")
	}
}

// run is the id that most tests use.
const run = "0199a326-cc88-7abc-8def-0123456789ab"

func key(user, path string) blob.Key { return blob.Key{UserID: user, RunID: run, Path: path} }

func put(t *testing.T, s blob.Store, k blob.Key, content []byte) blob.Info {
	t.Helper()
	if err := k.Check(); err != nil {
		t.Fatal(err)
	}
	info, err := s.Put(t.Context(), k, bytes.NewReader(content))
	if err != nil {
		t.Fatalf("put %.40q: %v", k.Path, err)
	}
	return info
}

func get(t *testing.T, s blob.Store, k blob.Key, offset int64) []byte {
	t.Helper()
	r, err := s.Open(t.Context(), k, offset)
	if err != nil {
		t.Errorf("open %.40q: %v", k.Path, err)
		return nil
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("read %.40q: %v", k.Path, err)
	}
	return content
}

func absent(t *testing.T, s blob.Store, k blob.Key) {
	t.Helper()
	r, err := s.Open(t.Context(), k, 0)
	if err == nil {
		r.Close()
	}
	if !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("open of missing %.40q: %v, want ErrNotFound", k.Path, err)
	}
}

// Clash checks that a store with artifacts in files refuses an artifact whose path leads through another artifact.
func Clash(t *testing.T, s blob.Store) {
	put(t, s, key("user", "a/b"), []byte("x"))
	for _, p := range []string{"a", "a/b/c"} {
		if _, err := s.Put(t.Context(), key("user", p), strings.NewReader("y")); belljar.CodeOf(err) != belljar.CodeConflict {
			t.Errorf("put %q over a/b: %v, want conflict", p, err)
		}
	}
	if got := get(t, s, key("user", "a/b"), 0); string(got) != "x" {
		t.Errorf("reads %q", got)
	}
}
