package workspace

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/workspace"
)

// An answer is kept for a short time, without another request; an error is not kept.
func TestFlightsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flights
		calls := 0
		do := func(err error) func(context.Context) (any, error) {
			return func(context.Context) (any, error) { calls++; return calls, err }
		}
		for range 2 {
			if v, err := f.share(t.Context(), "a", do(nil)); v != 1 || err != nil {
				t.Errorf("%v, %v", v, err)
			}
		}
		if _, err := f.share(t.Context(), "b", do(io.EOF)); !errors.Is(err, io.EOF) || len(f.byKey) != 1 {
			t.Errorf("%v, %d answers are kept", err, len(f.byKey))
		}
		time.Sleep(gitFresh + 1)
		synctest.Wait()
		if len(f.byKey) != 0 {
			t.Errorf("%d answers are kept", len(f.byKey))
		}
		if v, _ := f.share(t.Context(), "a", do(nil)); v != 3 {
			t.Errorf("an old answer: %v", v)
		}
	})
}

// The work continues while one of its clients waits, and ends with the last.
func TestFlightsOfClientsThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flights
		var ended atomic.Bool
		var left atomic.Int64
		do := func(ctx context.Context) (any, error) {
			<-ctx.Done()
			ended.Store(true)
			return nil, ctx.Err()
		}
		var leave []context.CancelFunc
		for range 3 {
			ctx, stop := context.WithCancel(t.Context())
			leave = append(leave, stop)
			go func() {
				if _, err := f.share(ctx, "a", do); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				left.Add(1)
			}()
			synctest.Wait()
		}
		for i, stop := range leave {
			if ended.Load() {
				t.Fatalf("the work ended with client %d of 3", i)
			}
			stop()
			synctest.Wait()
		}
		if !ended.Load() || left.Load() != 3 || len(f.byKey) != 0 {
			t.Errorf("the work ended: %t; %d of 3 clients have left, %d answers are kept", ended.Load(), left.Load(), len(f.byKey))
		}
	})
}

// stuck is an engine whose commands do not end while their clients wait.
type stuck struct {
	workspace.Engine
	runs *stuckRuns
}

func (s stuck) Runs() belljar.Runs { return s.runs }

type stuckRuns struct {
	belljar.Runs
	started, canceled atomic.Int64
}

func (s *stuckRuns) Finish(ctx context.Context, _ belljar.RunRequest, _ time.Duration) (belljar.Run, *belljar.Output, error) {
	s.started.Add(1)
	<-ctx.Done()
	return belljar.Run{ID: "run"}, nil, ctx.Err()
}

func (s *stuckRuns) Cancel(context.Context, string) error { s.canceled.Add(1); return nil }

// A few requests of a user for git are in progress at the same time. The commands of clients that left are cancelled.
func TestGitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := &stuckRuns{}
		door := &Door{opts: Options{ChatLifetime: time.Hour}, maxFile: 100, gits: api.NewShares(gitAtOnce, time.Second)}
		ctx, leave := context.WithCancel(t.Context())
		var refused atomic.Int64
		for i := range gitAtOnce + 3 {
			go func() {
				c := &call{Workspace: workspace.Workspace{Engine: stuck{runs: runs}, Root: "/work"}, r: httptest.NewRequestWithContext(ctx, "GET", "/", nil), door: door}
				if _, err := c.gitShow(strings.Repeat("x", i+1)); belljar.CodeOf(err) == belljar.CodeRateLimited {
					refused.Add(1)
				}
			}()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := runs.started.Load(); n != gitAtOnce || refused.Load() != 3 {
			t.Errorf("%d commands run, %d are refused", n, refused.Load())
		}
		leave()
		synctest.Wait()
		if n := runs.canceled.Load(); n != gitAtOnce {
			t.Errorf("%d of %d commands are cancelled", n, gitAtOnce)
		}
	})
}

// large is an engine with one large file. It counts the files that are open.
type large struct {
	workspace.Engine
	open, read *int
}

func (l large) Files() belljar.Files { return largeFiles{l: l} }

type largeFiles struct {
	belljar.Files
	l large
}

func (f largeFiles) Read(context.Context, string, string, int64, int64) (belljar.FileEntry, io.ReadCloser, error) {
	*f.l.open++
	return belljar.FileEntry{Size: 5 << 20}, readCounter{strings.NewReader("\x01"), f.l.read}, nil
}

type readCounter struct {
	io.Reader
	read *int
}

func (r readCounter) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if n > 0 {
		*r.read++
	}
	return n, err
}

func (readCounter) Close() error { return nil }

// The answers with a user's large files share memory before they are read, in the size that JSON may give them, until they are sent.
func TestLargeFilesShareMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, read := 0, 0
		door := &Door{opts: Options{Bodies: api.JSONShares()}, maxFile: 5 << 20}
		calls := make([]*call, 3)
		for i := range calls {
			calls[i] = &call{Workspace: workspace.Workspace{Engine: large{open: &open, read: &read}}, r: httptest.NewRequestWithContext(t.Context(), "HEAD", "/", nil), door: door}
			go func() {
				if _, err := calls[i].read("x"); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		for sent := range calls {
			if open != 3 || read != sent+1 {
				t.Errorf("%d of %d files are read while %d answers are sent", read, open, sent)
			}
			for _, c := range calls {
				if len(c.sent) > 0 {
					c.sent[0]()
					c.sent = nil
					break
				}
			}
			synctest.Wait()
		}
	})
}

// The answers with a user's trees and searches share memory, too.
func TestListsShareMemory(t *testing.T) {
	x := chatWith(t, linked{n: 100, looks: new(atomic.Int64)}, nil)
	x.call.door.opts.Bodies = api.NewShares(1<<20, 0)
	release, err := x.call.door.opts.Bodies.Take(t.Context(), "", 1<<20-1000)
	if err != nil {
		t.Fatal(err)
	}
	x.call.r = httptest.NewRequestWithContext(t.Context(), "GET", "/?q=1", nil)
	for _, want := range []belljar.Code{belljar.CodeRateLimited, ""} {
		for name, list := range map[string]func(string) (any, error){"tree": x.call.tree, "search": x.call.search} {
			if _, err := list("."); belljar.CodeOf(err) != want {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
			for _, sent := range x.call.sent {
				sent()
			}
		}
		release()
	}
}

// A tree that waits for memory has its whole time to follow links.
func TestTreeWaitsForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := chatWith(t, linked{n: 100, looks: new(atomic.Int64)}, nil)
		x.call.door.opts.Bodies = api.NewShares(1<<20, 4*lookTime)
		release, err := x.call.door.opts.Bodies.Take(t.Context(), "", 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(2*lookTime, release)
		got, err := x.call.tree(".")
		if err != nil {
			t.Fatal(err)
		}
		if out := got.(tagged).v.(tree); out.Truncated || len(out.Entries) != 100 || !out.Entries[0].Dir {
			t.Errorf("%d entries, %+v", len(out.Entries), out.cut)
		}
	})
}
