//go:build linux

package service_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
	"github.com/belljar/belljar/test/tier"
)

// seq returns the output of a program that counts from 1 to n.
func seq(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i+1)
	}
	return b.String()
}

// wantText compares output, and reports the first difference.
func wantText(t *testing.T, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	t.Fatalf("%d bytes, want %d; they differ at %d: %.40q, want %.40q", len(got), len(want), at, got[at:], want[at:])
}

// A run continues after the death of its process: its log has no gaps or duplicates, and its real end.
func TestRunOutlivesItsProcess(t *testing.T) {
	for _, where := range []string{"one-shot", "session"} {
		t.Run(where, func(t *testing.T) {
			w := newWorld(t)
			p := w.boot()
			request := shell
			var s belljar.Session
			if where == "session" {
				s = p.open()
				request = func(script string) belljar.RunRequest { return in(s, script) }
			}
			gate := filepath.Join(t.TempDir(), "gate")
			run := p.start(request("seq 1 5000; while [ ! -e " + gate + " ]; do sleep 0.01; done; seq 5001 9000; exit 3"))
			p.waitFor(run.ID, "\n4000\n")
			p.kill()
			next := w.boot()
			if got, err := next.Get(next.context(), run.ID); err != nil || got.Phase != belljar.PhaseRunning {
				t.Errorf("after the restart: %+v, %v", got, err)
			}
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r := next.follow(run.ID)
			r.want(t, belljar.PhaseFailed, 3, belljar.ReasonNonZeroExit)
			wantText(t, r.stdout, seq(9000))
			if !r.CreatedAt.Equal(run.CreatedAt) || r.StartedAt == nil || r.StartedAt.Before(r.CreatedAt) {
				t.Errorf("created %v, started %v; was created %v", r.CreatedAt, r.StartedAt, run.CreatedAt)
			}
			if where == "session" {
				next.end(s)
			}
			next.gone("")
		})
	}
}

// A cancelled run does not continue, even if its process dies directly after the response.
func TestCancelOutlivesItsProcess(t *testing.T) {
	w := newWorld(t)
	for range 10 {
		p := w.boot()
		gate := filepath.Join(t.TempDir(), "gate")
		run := p.start(shell("while [ ! -e " + gate + " ]; do sleep 0.01; done"))
		if err := p.Cancel(p.context(), run.ID); err != nil {
			t.Fatal(err)
		}
		p.kill()
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		next := w.boot()
		switch r := next.follow(run.ID); {
		case r.Phase == belljar.PhaseKilled && r.ReasonCode == belljar.ReasonCanceledByUser:
		case r.Phase == belljar.PhaseFailed && r.ReasonCode == belljar.ReasonNodeLost && r.StartedAt == nil:
		default:
			t.Errorf("%s, %s: %s", r.Phase, r.ReasonCode, r.Message)
		}
		next.gone(run.ID) // happens after the response
		next.kill()
	}
}

// A run that ends while no server runs is reported with its result and its artifacts.
func TestRunEndsWithoutServer(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	dir := t.TempDir()
	gate, over := filepath.Join(dir, "gate"), filepath.Join(dir, "over")
	run := p.start(with(shell("echo one; while [ ! -e "+gate+" ]; do sleep 0.01; done; echo two >&2; echo x > out; (sleep 0.05; touch "+over+") & "),
		func(s *belljar.RunSpec) { s.CapturePatterns = []string{"out"} }))
	p.waitFor(run.ID, "one\n")
	p.kill()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	box, err := w.runtime().Attach(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	awaitExit(t, box, run.ID)
	next := w.boot()
	r := next.follow(run.ID)
	r.want(t, belljar.PhaseCompleted, 0, "")
	if r.stdout != "one\n" || r.stderr != "two\n" {
		t.Errorf("printed %q, %q", r.stdout, r.stderr)
	}
	left, err := next.Artifacts.List(next.context(), run.ID)
	if err != nil || len(left) != 1 || left[0].Path != "out" {
		t.Errorf("left %+v, %v", left, err)
	}
}

// A session continues with its files, its name and its clock. Queued runs, and runs that had begun without starting, keep their state.
func TestSessionOutlivesItsProcess(t *testing.T) {
	clock := newHourglass()
	w := newWorld(t, func(o *service.Options) { o.Clock = clock })
	p := w.boot()
	s := p.open(func(r *belljar.SessionRequest) {
		r.Scope = belljar.Scope{Namespace: "workflow", ID: "1", Key: "default"}
		r.Env, r.MaxConcurrent, r.TTLSec = map[string]string{"WHO": "me"}, 1, 600
	})
	p.run(in(s, "echo kept > file; (sleep 1000 & echo $! > job)")).want(t, belljar.PhaseCompleted, 0, "")
	gate := filepath.Join(t.TempDir(), "gate")
	busy := p.start(in(s, "echo up; while [ ! -e "+gate+" ]; do sleep 0.01; done"))
	p.waitFor(busy.ID, "up\n")
	waits := p.start(in(s, "echo waited $WHO"))
	p.kill()
	clock.pass(5 * time.Minute)

	next := w.boot()
	if r, err := next.Get(next.context(), waits.ID); err != nil || r.Phase != belljar.PhaseQueued {
		t.Errorf("the second run of a session that runs one at a time: %+v, %v", r, err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	next.follow(busy.ID).want(t, belljar.PhaseCompleted, 0, "")
	if r := next.follow(waits.ID); r.stdout != "waited me\n" || r.Phase != belljar.PhaseCompleted {
		t.Errorf("what waited: %+v %q", r.Run, r.stdout)
	}
	same, created, err := next.mine().Open(next.context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{
		Scope: belljar.Scope{Namespace: "workflow", ID: "1", Key: "default"},
	}})
	if err != nil || created || same.ID != s.ID || same.State != belljar.SessionActive {
		t.Fatalf("opened again: %+v, %t, %v", same, created, err)
	}
	r := next.run(in(s, "cat file; kill -0 $(cat job) && echo $WHO"))
	if r.stdout != "kept\nme\n" {
		t.Errorf("found %q", r.stdout)
	}
	next.kill()
	clock.pass(20 * time.Minute)
	last := w.boot()
	if got := last.state(s.ID, belljar.SessionExpired); got.Message == "" {
		t.Errorf("%+v", got)
	}
	last.gone(s.ID)
}

// Runs that never began do not begin, and partly made or orphaned objects are removed.
func TestNothingIsLeftByADeadProcess(t *testing.T) {
	w := newWorld(t)
	rt := w.runtime()
	half := store.Session{Session: belljar.Session{
		ID: belljar.NewID(), UserID: "local", State: belljar.SessionStarting, Runtime: "fake", BaseImage: "host", CreatedAt: time.Now(),
		ExpiresAt: time.Now().Add(time.Hour),
	}}
	dead := half
	dead.ID, dead.State = belljar.NewID(), belljar.SessionActive
	key := store.Key{
		Endpoint: "sessions", UserKey: "local", Key: "again", Fingerprint: "x", ObjectID: half.ID, CreatedAt: time.Now(), Response: []byte("{}"),
	}
	if _, err := w.store.Sessions().Insert(t.Context(), half, &key); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Sessions().Insert(t.Context(), dead, nil); err != nil {
		t.Fatal(err)
	}
	starting := leftRow(belljar.PhaseStarting, &belljar.RunSpec{Command: []string{"true"}})
	if _, err := w.store.Runs().Insert(t.Context(), starting, nil); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{half.ID, starting.ID, belljar.NewID(), belljar.NewID()} {
		if _, err := rt.Create(t.Context(), runtime.Spec{ID: id, Lifetime: runtime.LifetimeDetached}); err != nil {
			t.Fatal(err)
		}
	}
	var events diary
	p := w.boot(func(o *service.Options) { o.Events = &events })
	for _, row := range []store.Session{half, dead} {
		if got := p.state(row.ID, belljar.SessionLost); got.Message == "" {
			t.Errorf("%+v", got)
		}
	}
	if ended := events.named(event.SessionEnded); len(ended) != 1 || ended[0].Session.ID != dead.ID {
		t.Errorf("ended: %+v", ended)
	}
	again := spec()
	again.IdempotencyKey = "again"
	made, err := p.mine().Create(p.context(), again)
	if err != nil || made.State != belljar.SessionActive || made.ID == half.ID {
		t.Errorf("the key of what was half made: %+v, %v", made, err)
	}
	p.end(made)
	if run, err := p.Get(p.context(), starting.ID); err != nil || run.Phase != belljar.PhaseFailed || run.ReasonCode != belljar.ReasonNodeLost {
		t.Errorf("%+v, %v", run, err)
	}
	p.gone("")
}

// A command of a session that no record names is ended. The session continues.
func TestStrayCommandIsEnded(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	s := p.open()
	run := p.start(in(s, "trap '' TERM; echo up; sleep 1000"))
	p.waitFor(run.ID, "up\n")
	p.kill()
	if err := w.store.Runs().Finish(t.Context(), finished(run)); err != nil {
		t.Fatal(err)
	}
	next := w.boot()
	box, err := w.runtime().Attach(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	awaitForgotten(t, box, run.ID)
	next.run(in(s, "true")).want(t, belljar.PhaseCompleted, 0, "")
	next.end(s)
}

func finished(run belljar.Run) store.Run {
	now := time.Now()
	run.Phase, run.ReasonCode, run.FinishedAt = belljar.PhaseFailed, belljar.ReasonNodeLost, &now
	return store.Run{Run: run, LastSeq: 100}
}

// Consecutive processes that are killed at random moments lose and duplicate no output of a run, with two streams and characters split anywhere.
func TestManyDeaths(t *testing.T) {
	lines := tier.Pick(30_000, 60_000)
	w := newWorld(t)
	p := w.boot()
	s := p.open()
	script := fmt.Sprintf("seq -f '%%g ü€😀' 1 %d; seq -f '%%g é' 1 1000 >&2; printf 'cut \\342\\202'; exit 5", lines)
	runs := []belljar.Run{p.start(in(s, script)), p.start(shell(script)), p.start(in(s, script))}
	for _, run := range runs { // a run that has not begun would be lost
		p.waitFor(run.ID, "1 ü€😀\n")
	}
	chance := rand.New(rand.NewPCG(7, 11))
	for range tier.Rounds(t, 6, 12) {
		for f, err := range p.Frames(p.context(), runs[0].ID, belljar.Tail) {
			if err != nil || f.Type == belljar.FrameStdout && chance.IntN(20) == 0 || isEnd(f) {
				break
			}
		}
		p.kill()
		p = w.boot()
	}
	var stdout, stderr bytes.Buffer
	for i := range lines {
		fmt.Fprintf(&stdout, "%d ü€😀\n", i+1)
	}
	for i := range 1000 {
		fmt.Fprintf(&stderr, "%d é\n", i+1)
	}
	stdout.WriteString("cut \xe2\x82")
	for _, run := range runs {
		r := p.follow(run.ID)
		r.want(t, belljar.PhaseFailed, 5, belljar.ReasonNonZeroExit)
		wantText(t, r.stdout, stdout.String())
		wantText(t, r.stderr, stderr.String())
	}
	p.end(s)
	p.gone("")
}

func isEnd(f belljar.Frame) bool { return f.Event == belljar.EventEnd }

// A stopped process leaves its sessions and their runs to the next one, unless it is configured to end them.
func TestCloseLeavesSessions(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	s := p.open()
	gate := filepath.Join(t.TempDir(), "gate")
	run := p.start(in(s, "seq 1 100; while [ ! -e "+gate+" ]; do sleep 0.01; done; seq 101 200"))
	p.waitFor(run.ID, "\n100\n")
	single := p.start(shell("echo up; sleep 1000"))
	p.waitFor(single.ID, "up\n")
	reading := make(chan error, 1)
	go func() {
		var err error
		for _, err = range p.Frames(context.Background(), run.ID, 1) {
		}
		reading <- err
	}()
	soon, hurry := context.WithCancel(t.Context())
	hurry()
	if err := p.service.Drain(soon); err != nil {
		t.Fatal(err)
	}
	if err := <-reading; belljar.CodeOf(err) != belljar.CodeRuntimeUnavailable {
		t.Errorf("who reads hears %v", err)
	}
	if err := p.service.Close(); err != nil { // called a second time
		t.Fatal(err)
	}
	p.kill()

	next := w.boot()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := next.follow(run.ID)
	r.want(t, belljar.PhaseCompleted, 0, "")
	wantText(t, r.stdout, seq(200))
	if got, err := next.Get(next.context(), single.ID); err != nil || got.Phase != belljar.PhaseKilled {
		t.Errorf("the run of its own: %+v, %v", got, err)
	}
	if err := next.service.Close(); err != nil {
		t.Fatal(err)
	}
	last := w.boot(func(o *service.Options) { o.EndSessions = true })
	last.state(s.ID, belljar.SessionActive)
	if err := last.service.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := w.runtime().List(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A session whose sandbox dies has crashed, its runs fail for that reason, and its scope is free; the same applies to a session of a previous
// process.
func TestSandboxDiesUnderASession(t *testing.T) {
	scope := belljar.Scope{Namespace: "agent", ID: "a", Key: "default"}
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprint("restarted ", restarted), func(t *testing.T) {
			w := newWorld(t)
			p := w.boot()
			s := p.open(func(r *belljar.SessionRequest) { r.Scope = scope })
			run := p.start(in(s, "echo up; sleep 1000"))
			p.waitFor(run.ID, "up\n")
			if restarted {
				p.kill()
				p = w.boot()
			}
			if err := w.runtime().Remove(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
			r := p.follow(run.ID)
			r.want(t, belljar.PhaseFailed, 137, belljar.ReasonSandboxDied)
			if r.stdout != "up\n" {
				t.Errorf("printed %q", r.stdout)
			}
			if got := p.state(s.ID, belljar.SessionCrashed); got.Message == "" {
				t.Errorf("%+v", got)
			}
			again, created, err := p.mine().Open(p.context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{Scope: scope}})
			if err != nil || !created || again.ID == s.ID {
				t.Errorf("opened again: %+v, %t, %v", again, created, err)
			}
			p.end(again)
		})
	}
}

// A truncated log stays truncated, and its run ends normally.
func TestCutLogStaysCut(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	s := p.open()
	gate := filepath.Join(t.TempDir(), "gate")
	req := in(s, "seq 1 20000; while [ ! -e "+gate+" ]; do sleep 0.01; done; seq 1 20000; exit 4")
	req.Resources.LogBytes = 5000
	run := p.start(req)
	for f, err := range p.Frames(p.context(), run.ID, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Type == belljar.FrameTruncated {
			break
		}
	}
	p.kill()
	next := w.boot()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := next.follow(run.ID)
	r.want(t, belljar.PhaseFailed, 4, belljar.ReasonNonZeroExit)
	wantText(t, r.stdout, seq(20000)[:5000])
	marks := slices.DeleteFunc(r.frames, func(f belljar.Frame) bool { return f.Type != belljar.FrameTruncated })
	if len(marks) != 1 || !r.Truncated {
		t.Errorf("%d marks, truncated %t", len(marks), r.Truncated)
	}
	next.end(s)
}

// A command's timeout counts from its start, even across a restart.
func TestTimeoutOverARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.boot()
	s := p.open()
	req := in(s, "echo up; sleep 1000")
	req.TimeoutSec = late
	run := p.start(req)
	p.waitFor(run.ID, "up\n")
	p.kill()
	next := w.boot()
	r := next.follow(run.ID)
	if r.Phase != belljar.PhaseTimedOut || r.ReasonCode != belljar.ReasonExecutionTimeout {
		t.Errorf("%+v", r.Run)
	}
	cancelled := next.start(in(s, "echo up; sleep 1000"))
	next.waitFor(cancelled.ID, "up\n")
	next.kill()
	last := w.boot()
	if err := last.Cancel(last.context(), cancelled.ID); err != nil {
		t.Fatal(err)
	}
	if r := last.follow(cancelled.ID); r.Phase != belljar.PhaseKilled || r.ReasonCode != belljar.ReasonCanceledByUser {
		t.Errorf("%+v", r.Run)
	}
	last.end(s)
}

// heldBlobs is a blob store whose first write waits until its context ends, or proceed is closed.
type heldBlobs struct {
	blob.Store
	once           sync.Once
	begun, proceed chan struct{}
}

func (b *heldBlobs) Put(ctx context.Context, k blob.Key, r io.Reader) (info blob.Info, err error) {
	b.once.Do(func() {
		close(b.begun)
		select {
		case <-ctx.Done():
		case <-b.proceed:
		}
	})
	if ctx.Err() != nil {
		return info, ctx.Err()
	}
	return b.Store.Put(ctx, k, r)
}

// If the process stops while the artifacts of a session's run are being copied, the next process copies them.
func TestCloseWhileArtifactsAreCopied(t *testing.T) {
	w := newWorld(t)
	held := &heldBlobs{begun: make(chan struct{})}
	p := w.boot(func(o *service.Options) { held.Store, o.Blobs = o.Blobs, held })
	s := p.open()
	run := p.start(with(in(s, "echo printed; echo x > out; exit 3"), func(s *belljar.RunSpec) { s.CapturePatterns = []string{"out"} }))
	<-held.begun
	if err := p.service.Close(); err != nil {
		t.Fatal(err)
	}
	p.kill()
	next := w.boot()
	r := next.follow(run.ID)
	r.want(t, belljar.PhaseFailed, 3, belljar.ReasonNonZeroExit)
	wantText(t, r.stdout, "printed\n")
	if left, err := next.Artifacts.List(next.context(), run.ID); err != nil || len(left) != 1 || left[0].Path != "out" || left[0].Skipped != "" {
		t.Errorf("left %+v, %v; warnings %q", left, err, r.Warnings)
	}
	next.end(s)
	next.gone("")
}
