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

// server has one snapshot, of which it sends a part.
type server struct {
	belljar.Service
	after func() // the part
}

func (s server) Snapshots() belljar.Snapshots { return snapshots{s: s} }

type snapshots struct {
	belljar.Snapshots
	s server
}

func (snapshots) List(context.Context, belljar.SnapshotQuery) (belljar.SnapshotPage, error) {
	return belljar.SnapshotPage{Items: []belljar.Snapshot{{ID: "1", Name: "x"}}}, nil
}

func (x snapshots) Export(ctx context.Context, _ string, w io.Writer) error {
	_, _ = io.WriteString(w, "half")
	x.s.after()
	<-ctx.Done()
	return ctx.Err()
}

// An export that is interrupted leaves no file that looks whole.
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
