package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
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

// shifting is a service with 450 snapshots, to which one is added before each page.
type shifting struct {
	belljar.Service
	made int
}

func (s *shifting) Snapshots() belljar.Snapshots { return shiftingSnapshots{s: s} }

type shiftingSnapshots struct {
	belljar.Snapshots
	s *shifting
}

func (x shiftingSnapshots) List(_ context.Context, q belljar.SnapshotQuery) (page belljar.SnapshotPage, _ error) {
	s := x.s
	s.made++
	for i := q.Offset; i < min(q.Offset+q.Limit, s.made); i++ {
		page.Items = append(page.Items, belljar.Snapshot{ID: strconv.Itoa(s.made - i), Name: strconv.Itoa(s.made - i)}) // newest first
	}
	page.HasMore = q.Offset+q.Limit < s.made
	return page, nil
}

// A snapshot that is made while the pages of the list are read repeats none of the others.
func TestAllOnce(t *testing.T) {
	all, err := All(t.Context(), &shifting{made: 450})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, x := range all {
		seen[x.ID] = true
	}
	if len(all) != 451 || len(seen) != 451 {
		t.Errorf("%d snapshots, %d of them different, want 451", len(all), len(seen))
	}
	if id, err := Find(t.Context(), &shifting{made: 450}, "252"); id != "252" || err != nil { // the last of the first page
		t.Errorf("%q, %v", id, err)
	}
}

// A snapshot whose files may have changed while they were read is reported as a note, its size only aside.
func TestPrintInconsistent(t *testing.T) {
	var asides, notes []string
	to := func(all *[]string) func(string, ...any) {
		return func(format string, args ...any) { *all = append(*all, fmt.Sprintf(format, args...)) }
	}
	for _, consistent := range []bool{true, false} {
		asides, notes = nil, nil
		if err := Print(io.Discard, to(&asides), to(&notes), belljar.Snapshot{ID: "1", Consistent: consistent}, false, nil); err != nil {
			t.Fatal(err)
		}
		if len(asides) != 1 || consistent != (len(notes) == 0) {
			t.Errorf("consistent %v: aside %q, notes %q", consistent, asides, notes)
		}
	}
}
