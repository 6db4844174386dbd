//go:build linux

package service_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	agentwire "github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/logbook"
	books "github.com/belljar/belljar/internal/logbook/memory"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/internal/store/memory"
)

// errDead is the result of every operation of a process after its death.
var errDead = errors.New("this process is dead")

// death is the end of one process: its operations have no effect from then on.
type death struct {
	mu   sync.RWMutex
	dead bool

	counted bool // the process dies before the next step after so many
	left    int
}

// alive performs an operation of a live process. A death waits for its end, like for that of a system call.
func (d *death) alive(do func() error) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.dead {
		return errDead
	}
	return do()
}

// step performs an operation that changes something that outlives the process.
func (d *death) step(do func() error) error {
	d.mu.Lock()
	if d.counted {
		d.dead = d.dead || d.left == 0
		d.left--
	}
	d.mu.Unlock()
	return d.alive(do)
}

// after makes the process die after so many more steps.
func (d *death) after(steps int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counted, d.left = true, steps
}

// world is everything that outlives a process: machine, records, logs and artifacts.
type world struct {
	t     *testing.T
	host  *fake.Host
	store store.Store
	logs  logbook.Book
	blobs *blobs
	dir   string
	mux   bool // sandboxes have only one stream each
	// change is applied to the options of every process.
	change []func(*service.Options)
}

// process is a service that can die.
type process struct {
	*bench
	death *death
}

func newWorld(t *testing.T, change ...func(*service.Options)) *world {
	t.Helper()
	w := &world{
		t: t, host: fake.NewHost(), store: memory.New(), logs: books.New(), blobs: newBlobs(), dir: t.TempDir(), change: change,
	}
	t.Cleanup(func() {
		rt := fake.New(fake.Options{Host: w.host})
		left, err := rt.List(context.Background())
		if err != nil {
			t.Error(err)
		}
		for _, id := range left {
			if !t.Failed() {
				t.Errorf("sandbox %s is left", id)
			}
			if err := rt.Remove(context.Background(), id); err != nil {
				t.Error(err)
			}
		}
	})
	return w
}

// runtime returns the machine's sandboxes, without an owner.
func (w *world) runtime() runtime.Runtime { return fake.New(fake.Options{Host: w.host, Dir: w.dir}) }

// boot starts a process, which recovers the state of the previous one.
func (w *world) boot(change ...func(*service.Options)) *process {
	w.t.Helper()
	d := &death{}
	rt := fake.New(fake.Options{Host: w.host, Dir: w.dir, Mux: w.mux})
	opts := service.Options{
		Runtimes: []runtime.Runtime{mortalRuntime{rt, d}},
		Store:    mortalStore{w.store, d},
		Logs:     mortalBook{w.logs, d},
		Blobs:    mortalBlobs{w.blobs, d},
		Limits:   unhurried(),
		Slack:    patience,
		Require:  []string{},
		Lifetime: runtime.LifetimeDetached,
	}
	for _, f := range append(w.change, change...) {
		f(&opts)
	}
	s, err := service.New(opts)
	if err != nil {
		w.t.Fatal(err)
	}
	p := &process{death: d, bench: &bench{
		Runs: s.As(service.Local()).Runs(), Artifacts: s.As(service.Local()).Artifacts(), t: w.t, service: s, fake: rt,
	}}
	w.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			w.t.Errorf("close: %v", err)
		}
		rt.Close()
	})
	p.recover()
	return p
}

// kill ends the process in the middle of its operations.
func (p *process) kill() {
	p.t.Helper()
	p.death.mu.Lock()
	p.death.dead = true
	p.death.mu.Unlock()
	if err := p.fake.Close(); err != nil {
		p.t.Error(err)
	}
}

// end ends every session, so that nothing is left.
func (b *bench) end(sessions ...belljar.Session) {
	b.t.Helper()
	for _, s := range sessions {
		if err := b.mine().Delete(b.context(), s.ID); err != nil {
			b.t.Error(err)
		}
	}
}

type mortalRuntime struct {
	runtime.Runtime
	death *death
}

func (r mortalRuntime) Create(ctx context.Context, spec runtime.Spec) (box runtime.Sandbox, err error) {
	err = r.death.step(func() error { box, err = r.Runtime.Create(ctx, spec); return err })
	return mortalBox{box, r.death}, err
}

func (r mortalRuntime) Attach(ctx context.Context, id string) (box runtime.Sandbox, err error) {
	err = r.death.alive(func() error { box, err = r.Runtime.Attach(ctx, id); return err })
	return mortalBox{box, r.death}, err
}

func (r mortalRuntime) Remove(ctx context.Context, id string) error {
	return r.death.alive(func() error { return r.Runtime.Remove(ctx, id) })
}

type mortalBox struct {
	runtime.Sandbox
	death *death
}

func (b mortalBox) Dial(ctx context.Context) (conn net.Conn, err error) {
	err = b.death.alive(func() error { conn, err = b.Sandbox.Dial(ctx); return err })
	if err != nil {
		return nil, err
	}
	return mortalConn{conn, b.death}, nil
}

// mortalConn sends nothing after its process's death: otherwise an agent would believe that output was stored.
type mortalConn struct {
	net.Conn
	death *death
}

func (c mortalConn) Write(b []byte) (int, error) {
	if err := c.death.alive(func() error { return nil }); err != nil {
		c.Conn.Close() // as the kernel does: without waiting for a response
		return 0, err
	}
	return c.Conn.Write(b) // may block, and data from before a death may arrive after it
}

func (b mortalBox) Destroy(ctx context.Context) error {
	return b.death.step(func() error { return b.Sandbox.Destroy(ctx) })
}

// mortalStore pretends to outlive the process.
type mortalStore struct {
	store.Store
	death *death
}

func (s mortalStore) Mode() string             { return "sqlite" }
func (s mortalStore) Runs() store.Runs         { return mortalRuns{s.Store.Runs(), s.death} }
func (s mortalStore) Sessions() store.Sessions { return mortalSessions{s.Store.Sessions(), s.death} }
func (s mortalStore) Snapshots() store.Snapshots {
	return mortalSnapshots{s.Store.Snapshots(), s.death}
}

type mortalRuns struct {
	store.Runs
	death *death
}

func (r mortalRuns) Insert(ctx context.Context, row store.Run, key *store.Key) (prior *store.Key, err error) {
	err = r.death.alive(func() error { prior, err = r.Runs.Insert(ctx, row, key); return err })
	return prior, orClosed(err)
}

func (r mortalRuns) Update(ctx context.Context, row store.Run) error {
	return orClosed(r.death.alive(func() error { return r.Runs.Update(ctx, row) }))
}

func (r mortalRuns) Finish(ctx context.Context, row store.Run) error {
	return orClosed(r.death.alive(func() error { return r.Runs.Finish(ctx, row) }))
}

// orClosed converts errDead to an error that prevents retries.
func orClosed(err error) error {
	if errors.Is(err, errDead) {
		return store.ErrClosed
	}
	return err
}

type mortalSessions struct {
	store.Sessions
	death *death
}

func (s mortalSessions) Insert(ctx context.Context, row store.Session, key *store.Key) (prior *store.Key, err error) {
	err = s.death.alive(func() error { prior, err = s.Sessions.Insert(ctx, row, key); return err })
	return prior, orClosed(err)
}

func (s mortalSessions) Update(ctx context.Context, row store.Session) error {
	return orClosed(s.death.step(func() error { return s.Sessions.Update(ctx, row) }))
}

type mortalSnapshots struct {
	store.Snapshots
	death *death
}

func (s mortalSnapshots) Insert(ctx context.Context, x belljar.Snapshot) error {
	return orClosed(s.death.step(func() error { return s.Snapshots.Insert(ctx, x) }))
}

func (s mortalSnapshots) Delete(ctx context.Context, id string) (last bool, err error) {
	err = s.death.step(func() error { last, err = s.Snapshots.Delete(ctx, id); return err })
	return last, orClosed(err)
}

type mortalBlobs struct {
	blob.Store
	death *death
}

func (b mortalBlobs) Put(ctx context.Context, k blob.Key, r io.Reader) (info blob.Info, err error) {
	err = b.death.step(func() error { info, err = b.Store.Put(ctx, k, r); return err })
	return info, err
}

func (b mortalBlobs) Delete(ctx context.Context, userID, runID string) error {
	return b.death.step(func() error { return b.Store.Delete(ctx, userID, runID) })
}

type mortalBook struct {
	logbook.Book
	death *death
}

func (b mortalBook) Create(id string) (log logbook.Log, err error) {
	err = b.death.alive(func() error { log, err = b.Book.Create(id); return err })
	return mortalLog{log, b.death}, err
}

func (b mortalBook) Open(id string) (log logbook.Log, err error) {
	log, err = b.Book.Open(id)
	return mortalLog{log, b.death}, err
}

func (b mortalBook) Remove(id string) error {
	return b.death.alive(func() error { return b.Book.Remove(id) })
}

type mortalLog struct {
	logbook.Log
	death *death
}

// Append may be interrupted between any two frames.
func (l mortalLog) Append(frames ...belljar.Frame) error {
	for _, f := range frames {
		if err := l.death.alive(func() error { return l.Log.Append(f) }); err != nil {
			return err
		}
	}
	return nil
}

func (l mortalLog) Seal() error { return l.death.alive(l.Log.Seal) }

// awaitExec waits until an agent reports a command in a certain state.
func awaitExec(t *testing.T, box runtime.Sandbox, id string, want func(known bool, e agentwire.ExecInfo) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		all, err := agent.New(box.Dial).List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(e agentwire.ExecInfo) bool { return e.ID == id })
		if i < 0 && want(false, agentwire.ExecInfo{}) || i >= 0 && want(true, all[i]) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func awaitExit(t *testing.T, box runtime.Sandbox, id string) {
	t.Helper()
	awaitExec(t, box, id, func(known bool, e agentwire.ExecInfo) bool { return known && e.Exit != nil })
}

func awaitForgotten(t *testing.T, box runtime.Sandbox, id string) {
	t.Helper()
	awaitExec(t, box, id, func(known bool, _ agentwire.ExecInfo) bool { return !known })
}
