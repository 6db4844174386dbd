//go:build linux

package file

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/agent/guest/identity"
	"github.com/belljar/belljar/internal/agent/wire"
)

// Where an unfinished file needs a name, a killed agent leaves it at the top of the workspace, and the next agent that writes there
// removes it.
func TestFileOfAKilledAgent(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	names := func() (found []string) {
		for _, pattern := range []string{".belljar-*", "d/*", "d/.belljar-*"} {
			list, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range list {
				name, _ = filepath.Rel(dir, name)
				found = append(found, name)
			}
		}
		slices.Sort(found)
		return slices.Compact(found)
	}
	var packed bytes.Buffer
	archive := tar.NewWriter(&packed)
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "d/f", Mode: 0o644, Size: 4}); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Write([]byte("text")); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	// write writes d/f. while is called when part of it has arrived, and returns the stream's next error.
	write := func(op wire.Op, while func() error) error {
		t.Helper()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		own := identity.Own{ID: identity.ID{UID: os.Geteuid(), GID: os.Getegid()}}
		w := New(dir, root, own, &sync.Pool{New: func() any { b := make([]byte, wire.MaxData); return &b }}, func() {})
		defer w.Close()
		w.named = true
		n := 0
		read := func() (wire.Frame, error) {
			n++
			switch {
			case op == wire.OpTarIn && n == 1:
				return wire.Frame{Kind: wire.KindData, Payload: packed.Bytes()[:512+2]}, nil
			case op == wire.OpTarIn && n == 2:
				return wire.Frame{Kind: wire.KindData, Payload: packed.Bytes()[512+2:]}, while()
			case n == 1:
				return wire.Frame{Kind: wire.KindData, Payload: []byte("text")}, nil
			case op == wire.OpTarIn:
				return wire.Frame{Kind: wire.KindEOF}, nil
			}
			return wire.Frame{Kind: wire.KindEOF}, while()
		}
		req := wire.FileRequest{Path: "d/f", UID: own.ID.UID, GID: own.ID.GID}
		if op == wire.OpTarIn {
			req.Path = "."
		}
		return w.Serve(Stream{Read: read, W: wire.NewWriter(io.Discard)}, op, req)
	}

	var left string
	broken := errors.New("broken")
	err := write(wire.OpWrite, func() error {
		found := names()
		if len(found) != 1 || filepath.Dir(found[0]) != "." {
			t.Fatalf("during a write: %q", found)
		}
		left = filepath.Join(dir, found[0])
		return broken
	})
	if !errors.Is(err, broken) || len(names()) > 0 {
		t.Errorf("after a failure: %v, %q", err, names())
	}
	past := time.Now().Add(-2 * staleMerge)
	for i, at := range []time.Time{past, time.Now()} {
		name := fmt.Sprint(left, i)
		if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Chtimes(name, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(wire.OpWrite, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if want, got := []string{filepath.Base(left) + "1", "d/f"}, names(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "d/f")); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	err = write(wire.OpTarIn, func() error {
		if found := names(); !slices.Contains(found, "d/f") || len(found) != 3 || slices.ContainsFunc(found, func(name string) bool { return filepath.Dir(name) != "." && name != "d/f" }) {
			t.Errorf("while an archive replaces it: %q", found)
		}
		return broken
	})
	if got := names(); !errors.Is(err, broken) || len(got) != 2 {
		t.Errorf("after the failure of an archive: %v, %q", err, got)
	}
	if err := write(wire.OpTarIn, func() error { return nil }); err != nil || len(names()) != 2 {
		t.Errorf("after an archive: %v, %q", err, names())
	}
}
