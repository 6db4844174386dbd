//go:build linux

package client_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
)

func TestFiles(t *testing.T) {
	c := newWorld(t, nil).client()
	id, f, ctx := session(t, c).ID, c.Files(), within(t)
	wrote, err := f.Write(ctx, id, belljar.FileWrite{Path: "/workspace/a/b c?.txt", Content: strings.NewReader("0123456789"), Size: 10, Mode: 0o600})
	if err != nil || wrote.Path != "a/b c?.txt" || wrote.Size != 10 || wrote.Mode != "0600" {
		t.Fatalf("%+v, %v", wrote, err)
	}
	wrote.ETag = "" // only a write returns it
	if got, err := f.Stat(ctx, id, "a/b c?.txt"); err != nil || got != wrote {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = f.Write(ctx, id, belljar.FileWrite{Path: "a/b c?.txt", Content: strings.NewReader("x")})
	want(t, err, belljar.CodeConflict)
	for _, c := range []struct {
		offset, limit int64
		want          string
	}{{0, 0, "0123456789"}, {3, 0, "3456789"}, {3, 4, "3456"}, {0, 100, "0123456789"}, {10, 0, ""}, {50, 5, ""}} {
		entry, body, err := f.Read(ctx, id, "a/b c?.txt", c.offset, c.limit)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(body)
		body.Close()
		if string(got) != c.want || err != nil || entry != wrote {
			t.Errorf("%d+%d: %q of %+v, %v", c.offset, c.limit, got, entry, err)
		}
	}
	batch := []belljar.FileWrite{{Path: "m/1", Content: strings.NewReader("one")}, {Path: "m/2", Mode: 0o755}, {Path: "m/b", Content: bytes.NewReader([]byte{0, 255})}}
	if list, err := f.WriteAll(ctx, id, batch); err != nil || len(list) != 3 || list[1].Mode != "0755" || list[2].Size != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	list, err := f.List(ctx, id, belljar.FileQuery{Path: "m", Recursive: true, Limit: 2})
	if err != nil || len(list.Entries) != 2 || !list.Truncated {
		t.Errorf("%+v, %v", list, err)
	}
	found, err := f.Search(ctx, id, belljar.FileSearch{Content: "O.E", Regexp: true, IgnoreCase: true})
	if diff := cmp.Diff([]belljar.FileMatch{{Path: "m/1", Line: 1, Text: "one"}}, found.Matches); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if err := errors.Join(f.Mkdir(ctx, id, "n", 0o700), f.Rename(ctx, id, "m/1", "n/1", false), f.Delete(ctx, id, "m", true)); err != nil {
		t.Error(err)
	}
	var packed bytes.Buffer
	if err := f.Archive(ctx, id, "n", belljar.UploadTar, &packed); err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(&packed)
	if h, err := r.Next(); err != nil || h.Name != "1" || h.Size != 3 {
		t.Errorf("%+v, %v", h, err)
	}
	if s, err := f.Space(ctx, id); err != nil || s.MaxBytes == 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestFilesFail(t *testing.T) {
	w := newWorld(t, nil)
	c := w.client()
	id, f, ctx := session(t, c).ID, c.Files(), within(t)
	mishap := errors.New("the disk is on fire")
	_, err := f.Write(ctx, id, belljar.FileWrite{Path: "x", Content: io.MultiReader(strings.NewReader("half"), iotest.ErrReader(mishap))})
	if want(t, err, belljar.CodeInvalidRequest); !errors.Is(err, mishap) {
		t.Error(err)
	}
	_, err = c.Snapshots().Import(ctx, belljar.SnapshotSpec{}, io.MultiReader(strings.NewReader("half"), iotest.ErrReader(mishap)))
	if want(t, err, belljar.CodeInvalidRequest); !errors.Is(err, mishap) {
		t.Error(err)
	}
	_, err = f.Write(ctx, id, belljar.FileWrite{Path: "x", Content: strings.NewReader("half"), Size: 8})
	want(t, err, belljar.CodeInvalidRequest)
	_, err = f.Stat(ctx, id, "x")
	want(t, err, belljar.CodeNotFound)
	for _, overwrite := range []bool{false, true} { // some requests are refused early, some later
		_, err = f.Write(ctx, id, belljar.FileWrite{Path: "kept", Content: bytes.NewReader(make([]byte, 1<<20)), Overwrite: overwrite})
		if err != nil {
			t.Error(err)
		}
	}
	_, err = f.Write(ctx, id, belljar.FileWrite{Path: "kept", Content: bytes.NewReader(make([]byte, 32<<20))})
	want(t, err, belljar.CodeConflict)
	entry, err := f.Write(ctx, id, belljar.FileWrite{Path: "tagged", Content: strings.NewReader("one")})
	if err != nil || entry.ETag == "" {
		t.Errorf("%+v, %v", entry, err)
	}
	for _, code := range []belljar.Code{"", belljar.CodePrecondition} {
		_, err = f.Write(ctx, id, belljar.FileWrite{Path: "tagged", Content: strings.NewReader("two"), IfMatch: entry.ETag})
		if belljar.CodeOf(err) != code {
			t.Error(err)
		}
	}
	_, err = f.WriteAll(ctx, id, []belljar.FileWrite{{Path: "b", IfMatch: "*"}})
	want(t, err, belljar.CodeInvalidRequest)
	_, err = f.Write(ctx, id, belljar.FileWrite{Path: "../x", Content: strings.NewReader("x")})
	want(t, err, belljar.CodePathEscapes)
	_, err = f.Write(ctx, id, belljar.FileWrite{Path: "large", Content: strings.NewReader("x"), Size: 1 << 40})
	if belljar.CodeOf(err) != belljar.CodeTooLarge && belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Error(err)
	}
	_, err = f.WriteAll(ctx, id, []belljar.FileWrite{{Path: "b", Overwrite: true}, {Path: "c"}})
	want(t, err, belljar.CodeInvalidRequest)
	_, err = f.WriteAll(ctx, id, []belljar.FileWrite{{Path: "b", Content: bytes.NewReader(make([]byte, belljar.MaxBatchBytes+1))}})
	want(t, err, belljar.CodeTooLarge)
	_, _, err = f.Read(ctx, id, "none", 5, 5)
	want(t, err, belljar.CodeNotFound)
	_, _, err = f.Read(ctx, id, "kept", -1, 0)
	want(t, err, belljar.CodeInvalidRequest)
	want(t, f.Archive(ctx, id, "none", belljar.UploadZip, io.Discard), belljar.CodeNotFound)
	_, err = w.client(as("bob")).Files().Stat(ctx, id, "kept")
	want(t, err, belljar.CodeNotFound)
}

// TestWriteAnnounced: a file whose size does not fit is refused before it is sent.
func TestWriteAnnounced(t *testing.T) {
	var announced atomic.Int64
	c := newWorld(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			announced.Store(r.ContentLength)
			next.ServeHTTP(w, r)
		})
	}).client()
	s := session(t, c)
	size := int64(s.Limits.WorkspaceMB)<<20 + 1
	_, err := c.Files().Write(within(t), s.ID, belljar.FileWrite{Path: "a", Content: endless{}, Size: size})
	if want(t, err, belljar.CodeTooLarge); announced.Load() != size {
		t.Errorf("%d bytes are announced, want %d", announced.Load(), size)
	}
	for _, n := range []int{1000, 100 << 10} {
		_, err = c.Files().Write(within(t), s.ID, belljar.FileWrite{Path: "b", Content: strings.NewReader(strings.Repeat("x", n+1)), Size: int64(n)})
		want(t, err, belljar.CodeInvalidRequest)
		_, err = c.Files().Stat(within(t), s.ID, "b")
		want(t, err, belljar.CodeNotFound)
		entry, err := c.Files().Write(within(t), s.ID, belljar.FileWrite{Path: "c", Content: strings.NewReader(strings.Repeat("x", n)), Size: int64(n), Overwrite: true})
		if err != nil || entry.Size != int64(n) {
			t.Errorf("%+v, %v", entry, err)
		}
	}
}

// endless is a reader without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
