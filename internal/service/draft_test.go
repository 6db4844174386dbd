//go:build linux

package service_test

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook/dir"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
)

// desk is a service with logs in files, with a session, and with counters of the writes for runs.
type desk struct {
	*bench
	session string
	path    string // folder of the logs

	inserts, adds, finishes atomic.Int64
	inserted                chan struct{} // receives the first insert
	refuse                  atomic.Bool   // writes fail
}

type countedStore struct {
	store.Store
	d *desk
}

func (s countedStore) Runs() store.Runs { return countedRuns{s.Store.Runs(), s.d} }

type countedRuns struct {
	store.Runs
	d *desk
}

var errRefused = errors.New("the store takes nothing")

func (r countedRuns) count(n *atomic.Int64) error {
	n.Add(1)
	if r.d.refuse.Load() {
		return errRefused
	}
	return nil
}

func (r countedRuns) Insert(ctx context.Context, row store.Run, key *store.Key) (*store.Key, error) {
	if err := r.count(&r.d.inserts); err != nil {
		return nil, err
	}
	prior, err := r.Runs.Insert(ctx, row, key)
	select {
	case r.d.inserted <- struct{}{}:
	default:
	}
	return prior, err
}

func (r countedRuns) Add(ctx context.Context, row store.Run) error {
	if err := r.count(&r.d.adds); err != nil {
		return err
	}
	return r.Runs.Add(ctx, row)
}

func (r countedRuns) Finish(ctx context.Context, row store.Run) error {
	if err := r.count(&r.d.finishes); err != nil {
		return err
	}
	return r.Runs.Finish(ctx, row)
}

func newDesk(t *testing.T, change ...func(*service.Options)) *desk {
	d := &desk{path: t.TempDir(), inserted: make(chan struct{}, 1)}
	book, err := dir.Open(dir.Options{Path: d.path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { book.Close() })
	d.bench = newBench(t, append(change, func(o *service.Options) { o.Logs, o.Store = book, countedStore{o.Store, d} })...)
	made, err := d.service.As(service.Local()).Sessions().Create(d.context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.1", BaseImage: "host"}})
	if err != nil {
		t.Fatal(err)
	}
	d.session = made.ID
	return d
}

// timeless stops the clock, so that draftFor never passes on a slow machine.
func timeless(o *service.Options) { o.Clock = newHourglass() }

func (d *desk) request(script string) belljar.RunRequest {
	return belljar.RunRequest{RunSpec: belljar.RunSpec{SpecVersion: "1.1", SessionID: d.session, Command: []string{"/bin/sh", "-c", script}}}
}

func (d *desk) finish(script string, wait time.Duration) (belljar.Run, *belljar.Output) {
	d.t.Helper()
	run, out, err := belljar.Finish(d.context(), d.Runs, d.request(script), wait)
	if err != nil {
		d.t.Fatal(err)
	}
	return run, out
}

func (d *desk) files() (n int) {
	d.t.Helper()
	err := filepath.WalkDir(d.path, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return n
}

// TestShortRunIsOneWrite: a short run is recorded once, including its log, and is then like any other run.
func TestShortRunIsOneWrite(t *testing.T) {
	d := newDesk(t, timeless)
	run, out := d.finish("echo out; echo err >&2; printf '\\377'; exit 3", patience)
	if out == nil || out.StdoutEncoding != "base64" || out.Stderr != "err\n" || run.LastSeq == 0 {
		t.Fatalf("%+v, %+v", run, out)
	}
	r := d.follow(run.ID)
	r.want(t, belljar.PhaseFailed, 3, belljar.ReasonNonZeroExit)
	if r.stdout != "out\n\xff" || r.stderr != "err\n" || r.LastSeq != run.LastSeq || uint64(len(r.frames)) != run.LastSeq {
		t.Errorf("%q, %q, last seq %d of %d", r.stdout, r.stderr, r.LastSeq, run.LastSeq)
	}
	if i, a, f := d.inserts.Load(), d.adds.Load(), d.finishes.Load(); i != 0 || a != 1 || f != 0 {
		t.Errorf("%d inserts, %d adds, %d finishes", i, a, f)
	}
	if n := d.files(); n != 0 {
		t.Errorf("%d files", n)
	}
	for from := uint64(2); from <= run.LastSeq+1; from++ {
		n := 0
		for f, err := range d.Frames(d.context(), run.ID, from) {
			if err != nil || f.Seq != from+uint64(n) {
				t.Fatalf("from %d: %v, %v", from, f, err)
			}
			n++
		}
		if n != int(run.LastSeq-from+1) {
			t.Errorf("from %d: %d frames", from, n)
		}
	}
}

// TestShortRunThatPrintsMuch: a short run with much output has a log file.
func TestShortRunThatPrintsMuch(t *testing.T) {
	d := newDesk(t)
	for i, n := range []string{"20000", "200000"} {
		run, out := d.finish("head -c "+n+" /dev/zero | tr '\\0' x", patience)
		r := d.follow(run.ID)
		r.want(t, belljar.PhaseCompleted, 0, "")
		if r.stdout != out.Stdout || strings.Count(r.stdout, "x") != len(r.stdout) || d.files() != i+1 {
			t.Errorf("%d bytes, answered %d, %d files", len(r.stdout), len(out.Stdout), d.files())
		}
	}
}

// TestDraftTakesLong: a run that takes longer than a draft may is recorded while it runs.
func TestDraftTakesLong(t *testing.T) {
	d := newDesk(t)
	var all sync.WaitGroup
	all.Go(func() {
		run, out := d.finish("mkfifo go; echo begun; read x < go; echo done", patience)
		if out == nil || out.Stdout != "begun\ndone\n" {
			t.Errorf("%+v, %+v", run, out)
		}
	})
	select {
	case <-d.inserted:
	case <-d.context().Done():
		t.Fatal("it does not go on record")
	}
	page, err := d.List(d.context(), belljar.RunQuery{SessionID: d.session})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	d.waitFor(page.Items[0].ID, "begun")
	if n := d.files(); n != 1 {
		t.Errorf("%d files", n)
	}
	if _, out := d.finish("echo > go", patience); out == nil {
		t.Error("no answer")
	}
	all.Wait()
	d.follow(page.Items[0].ID).want(t, belljar.PhaseCompleted, 0, "")
	// On a slow machine the second run also takes long.
	if i, f := d.inserts.Load(), d.finishes.Load(); i < 1 || f != i {
		t.Errorf("%d inserts, %d finishes", i, f)
	}
}

// TestDraftIsListed: a list contains every run.
func TestDraftIsListed(t *testing.T) {
	d := newDesk(t)
	var all sync.WaitGroup
	all.Go(func() { d.finish("mkfifo go; read x < go", patience) })
	d.finish("until [ -p go ]; do sleep 0.01; done", patience)
	d.eventually("it is listed", func() bool { // its effects are visible before the event of its start arrives
		page, err := d.List(d.context(), belljar.RunQuery{Phase: belljar.PhaseRunning})
		return err == nil && len(page.Items) == 1
	})
	d.finish("echo > go", patience)
	all.Wait()
}

// TestAnswerBeforeTheEnd: an id in a response is on record, however short the wait.
func TestAnswerBeforeTheEnd(t *testing.T) {
	d := newDesk(t)
	run, out := d.finish("mkfifo go; read x < go; echo late", time.Nanosecond)
	if out != nil || run.Phase.Terminal() {
		t.Fatalf("%+v, %+v", run, out)
	}
	if n := d.inserts.Load(); n != 1 {
		t.Errorf("%d inserts", n)
	}
	d.finish("until [ -p go ]; do sleep 0.01; done; echo > go", patience)
	if r := d.follow(run.ID); r.stdout != "late\n" {
		t.Errorf("printed %q", r.stdout)
	}
}

// TestCallerOfADraftLeaves: the run continues, on record.
func TestCallerOfADraftLeaves(t *testing.T) {
	d := newDesk(t)
	ctx, leave := context.WithCancel(d.context())
	all := make(chan error, 1)
	go func() {
		_, _, err := belljar.Finish(ctx, d.Runs, d.request("mkfifo go; read x < go; echo alone"), patience)
		all <- err
	}()
	d.finish("until [ -p go ]; do sleep 0.01; done", patience)
	leave()
	if err := <-all; !errors.Is(err, context.Canceled) {
		t.Fatalf("answered %v", err)
	}
	d.finish("echo > go", patience)
	page, err := d.List(d.context(), belljar.RunQuery{})
	if err != nil || len(page.Items) != 3 {
		t.Fatalf("%+v, %v", page, err)
	}
	printed := ""
	for _, run := range page.Items {
		printed += d.follow(run.ID).stdout
	}
	if printed != "alone\n" {
		t.Errorf("printed %q", printed)
	}
}

// TestDraftWithoutRecord: if a draft cannot be recorded, its id is not returned, and the run does not continue.
func TestDraftWithoutRecord(t *testing.T) {
	d := newDesk(t)
	d.refuse.Store(true)
	_, out, err := belljar.Finish(d.context(), d.Runs, d.request("sleep 60"), time.Millisecond)
	if belljar.CodeOf(err) != belljar.CodeInternal || out != nil {
		t.Fatalf("answered %v", err)
	}
	d.refuse.Store(false)
	d.service.WaitIdle()
	page, err := d.List(d.context(), belljar.RunQuery{})
	if err != nil || len(page.Items) != 1 || page.Items[0].Phase != belljar.PhaseKilled {
		t.Fatalf("%+v, %v", page, err)
	}
}

// TestDraftsAtOnce: concurrent drafts do not affect each other.
func TestDraftsAtOnce(t *testing.T) {
	d := newDesk(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				run, out := d.finish("echo $$", patience)
				if r := d.follow(run.ID); out == nil || r.stdout != out.Stdout || r.Phase != belljar.PhaseCompleted {
					t.Errorf("%q, answered %+v", r.stdout, out)
				}
			}
		})
	}
	all.Wait()
	if n := d.files(); n != 0 && d.inserts.Load() == 0 {
		t.Errorf("%d files", n)
	}
}

// A caller that waits for a run in a session gets its id from a service that closes: the command continues.
func TestWaitedRunOutlivesItsProcess(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	s := p.open()
	type answer struct {
		run belljar.Run
		err error
	}
	answered := make(chan answer, 2)
	req := in(s, "mkfifo go; echo up; read x < go; echo went")
	req.IdempotencyKey = "k"
	finish := func() {
		run, _, err := belljar.Finish(p.context(), p.Runs, req, patience)
		answered <- answer{run, err}
	}
	go finish()
	var id string
	p.until(func() bool {
		page, err := p.List(p.context(), belljar.RunQuery{SessionID: s.ID})
		if err != nil {
			t.Error(err)
		}
		if len(page.Items) > 0 {
			id = page.Items[0].ID
		}
		return id != ""
	})
	p.waitFor(id, "up\n")
	if err := p.service.Close(); err != nil {
		t.Fatal(err)
	}
	finish() // the request is repeated with its key
	for range 2 {
		if a := <-answered; a.run.ID != id || belljar.CodeOf(a.err) != belljar.CodeRuntimeUnavailable || !strings.Contains(belljar.HintOf(a.err), "look at the run") || !strings.Contains(belljar.HintOf(a.err), "Idempotency-Key") {
			t.Errorf("run %q, %v, hint %q", a.run.ID, a.err, belljar.HintOf(a.err))
		}
	}
	next := w.boot()
	next.run(in(s, "echo > go")).want(t, belljar.PhaseCompleted, 0, "")
	if r := next.follow(id); r.stdout != "up\nwent\n" {
		t.Errorf("%q", r.stdout)
	}
	next.end(s)
}
