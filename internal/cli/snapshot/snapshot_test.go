package snapshot

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/interrupt"
)

// server has several snapshots. It sends only a part of one.
type server struct {
	belljar.Service
	after func() // called after the part
	more  []belljar.Snapshot
}

func (s server) Snapshots() belljar.Snapshots { return snapshots{s: s} }

type snapshots struct {
	belljar.Snapshots
	s server
}

func (x snapshots) List(context.Context, belljar.SnapshotQuery) (belljar.SnapshotPage, error) {
	return belljar.SnapshotPage{Items: append(x.s.more, belljar.Snapshot{ID: "1", Name: "x", Kind: "workspace"})}, nil
}

func (x snapshots) Export(ctx context.Context, _ string, w io.Writer) error {
	_, _ = io.WriteString(w, "half")
	x.s.after()
	<-ctx.Done()
	return ctx.Err()
}

// An interrupted export leaves no file that looks complete.
func TestExportInterrupted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.tar")
	s := server{after: func() {
		if self, err := os.FindProcess(os.Getpid()); err != nil || self.Signal(os.Interrupt) != nil {
			t.Fatal("cannot interrupt")
		}
	}}
	var status interrupt.Status
	if err := Export(t.Context(), s, "x", file, nil); !errors.As(err, &status) || status != 130 {
		t.Errorf("%v, want status 130", err)
	}
	if _, err := os.Lstat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
}

// A snapshot's name finds that snapshot, even if a template has the same name.
func TestFindAsTemplate(t *testing.T) {
	s := server{more: []belljar.Snapshot{{ID: "2", Name: "x", Kind: "template"}, {ID: "3", Name: "x", Kind: "template"}}}
	if id, err := Find(t.Context(), s, "x"); id != "1" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
	s.more = append(s.more, belljar.Snapshot{ID: "4", Name: "x", Kind: "workspace"})
	if id, err := Find(t.Context(), s, "x"); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Errorf("two with that name: %q, %v", id, err)
	}
}
