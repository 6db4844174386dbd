//go:build linux

package service_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	vault "github.com/belljar/belljar/internal/secret"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
)

var (
	ann = belljar.Caller{ID: "ann", Role: belljar.RoleUser, Source: "rest"}
	opa = belljar.Caller{ID: "opa", Role: belljar.RoleAdmin}
)

// asking makes requests that match rules wait for an approval.
func asking(rules ...string) func(*service.Options) {
	return func(o *service.Options) {
		o.Policy = service.DefaultPolicy()
		o.Policy.Approval = rules
	}
}

// big returns a request with a longer timeout than usual.
func big(script string) belljar.RunRequest {
	return with(shell(script), func(s *belljar.RunSpec) { s.TimeoutSec = 900 })
}

// seen returns the bench with another caller.
func (b *bench) seen(caller belljar.Caller) *bench {
	c := *b
	c.Runs, c.Artifacts = b.service.As(caller).Runs(), b.service.As(caller).Artifacts()
	return &c
}

func (b *bench) decide(id, decision, note string) (belljar.Approval, error) {
	return b.service.As(opa).Admin().Decide(b.context(), id, belljar.ApprovalDecision{Decision: decision, Note: note})
}

func (b *bench) approve(id string) {
	b.t.Helper()
	if _, err := b.decide(id, belljar.DecisionApprove, ""); err != nil {
		b.t.Fatal(err)
	}
}

// pending checks that a run waits for an approval.
func (b *bench) pending(id string) belljar.Approval {
	b.t.Helper()
	run, err := b.Get(b.context(), id)
	if err != nil || run.Phase != belljar.PhaseQueued || run.Approval == nil || run.Approval.State != belljar.ApprovalPending || run.EstimatedStartTime != nil {
		b.t.Fatalf("%+v, %v", run, err)
	}
	return *run.Approval
}

func TestApproval(t *testing.T) {
	t.Parallel()
	clock := newHourglass()
	var events diary
	b := newBench(t, asking("timeout_sec>600"), func(o *service.Options) { o.Clock, o.Events = clock, &events }).seen(ann)
	run := b.start(big("echo done"))
	a := b.pending(run.ID)
	if a.ID != run.ID || a.Kind != "run" || !slices.Equal(a.Reasons, []string{"timeout_sec>600: 900"}) || a.UserID != "ann" || a.TimeoutSec != 900 || a.Fingerprint == "" ||
		!a.ExpiresAt.Equal(clock.Now().Add(time.Hour)) || !slices.Equal(a.Command, run.Command) {
		t.Errorf("%+v", a)
	}
	long := big("true")
	long.Command = append(long.Command, strings.Repeat("x", 17<<10))
	cut := b.pending(b.start(long).ID)
	if a.CommandTruncated || !cut.CommandTruncated || len(strings.Join(cut.Command, " ")) != 16<<10-1 {
		t.Errorf("a long command is cut: %v, a short one: %v", cut.CommandTruncated, a.CommandTruncated)
	}
	if _, err := b.decide(cut.ID, belljar.DecisionDeny, ""); err != nil {
		t.Error(err)
	}
	list, err := b.service.As(opa).Admin().Approvals(t.Context(), belljar.ApprovalQuery{State: belljar.ApprovalPending})
	if err != nil || list.Total != 1 || list.Items[0].ID != run.ID {
		t.Errorf("%+v, %v", list, err)
	}
	clock.pass(10 * time.Minute) // longer than it may wait in the queue
	b.pending(run.ID)
	decided, err := b.decide(run.ID, belljar.DecisionApprove, "go on")
	if err != nil || decided.State != belljar.ApprovalApproved || decided.DecidedBy != "opa" || decided.Note != "go on" || !decided.DecidedAt.Equal(clock.Now()) {
		t.Errorf("%+v, %v", decided, err)
	}
	r := b.follow(run.ID)
	r.want(t, belljar.PhaseCompleted, 0, "")
	if r.Approval.State != belljar.ApprovalApproved || r.Approval.DecidedBy != "opa" || r.stdout != "done\n" {
		t.Errorf("%+v", r.Run)
	}
	var states []any
	for _, f := range r.frames {
		if f.Event == belljar.EventApproval {
			states = append(states, f.Data["state"])
		}
	}
	if !slices.Equal(states, []any{"pending", "approved"}) {
		t.Errorf("in the log: %v", states)
	}
	for _, name := range []string{event.ApprovalRequested, event.ApprovalApproved} {
		if !events.has(name) {
			t.Errorf("no event %s", name)
		}
	}
	_, err = b.decide(run.ID, belljar.DecisionDeny, "")
	if e := (*belljar.Error)(nil); !errors.As(err, &e) || e.Code != belljar.CodeConflict || e.Details["decided_by"] != "opa" || !strings.Contains(e.Message, "opa has approved it already, at 2026-01-01T00:10:00Z") {
		t.Errorf("decided twice: %v", err)
	}
	if r := b.run(shell("echo small")); r.Approval != nil || r.stdout != "small\n" {
		t.Errorf("a run that matches nothing: %+v", r.Run)
	}
}

func (d *diary) has(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.events, func(e event.Event) bool { return e.Name == name })
}

func TestApprovalRefused(t *testing.T) {
	t.Parallel()
	clock, events := newHourglass(), diary{}
	b := newBench(t, asking("timeout_sec>600"), func(o *service.Options) { o.Clock, o.Events = clock, &events }).seen(ann)
	denied, late := b.start(big("echo never")), b.start(big("echo never"))
	if _, err := b.decide(denied.ID, belljar.DecisionDeny, "too big"); err != nil {
		t.Fatal(err)
	}
	r := b.follow(denied.ID)
	r.want(t, belljar.PhaseFailed, -1, belljar.ReasonPolicyDenied)
	if r.Message != "opa denied it: too big" || r.StartedAt != nil || r.Hint == "" {
		t.Errorf("%+v", r.Run)
	}
	clock.pass(time.Hour)
	r = b.follow(late.ID)
	r.want(t, belljar.PhaseFailed, -1, belljar.ReasonApprovalExpired)
	if r.Message != "no operator approved it within 1h0m0s" || r.Approval.State != belljar.ApprovalExpired {
		t.Errorf("%+v", r.Run)
	}
	if _, err := b.decide(late.ID, belljar.DecisionApprove, ""); belljar.CodeOf(err) != belljar.CodeConflict || !strings.Contains(err.Error(), "expired") {
		t.Errorf("after its time: %v", err)
	}
	got := append(events.ofApproval(denied.ID), events.ofApproval(late.ID)...)
	if want := []string{event.ApprovalRequested, event.ApprovalDenied, event.ApprovalRequested, event.ApprovalExpired}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	cancelled := b.start(big("echo never"))
	if err := b.Cancel(b.context(), cancelled.ID); err != nil {
		t.Fatal(err)
	}
	r = b.follow(cancelled.ID)
	r.want(t, belljar.PhaseKilled, -1, belljar.ReasonCanceledByUser)
	if r.Approval.State != belljar.ApprovalWithdrawn {
		t.Errorf("%+v", r.Approval)
	}
	if _, err := b.decide(cancelled.ID, belljar.DecisionApprove, ""); belljar.CodeOf(err) != belljar.CodeConflict {
		t.Errorf("after it was cancelled: %v", err)
	}
}

// Only operators can decide, and only about waiting requests.
func TestApprovalForged(t *testing.T) {
	t.Parallel()
	b := newBench(t, asking("timeout_sec>600")).seen(ann)
	run := b.start(big("echo never"))
	admin := b.service.As(ann).Admin()
	if _, err := admin.Decide(t.Context(), run.ID, belljar.ApprovalDecision{Decision: belljar.DecisionApprove}); belljar.CodeOf(err) != belljar.CodeForbidden {
		t.Errorf("their own request: %v", err)
	}
	if _, err := admin.Approvals(t.Context(), belljar.ApprovalQuery{}); belljar.CodeOf(err) != belljar.CodeForbidden {
		t.Errorf("list: %v", err)
	}
	for id, code := range map[string]belljar.Code{"": belljar.CodeNotFound, "x": belljar.CodeNotFound, belljar.NewID(): belljar.CodeNotFound} {
		if _, err := b.decide(id, belljar.DecisionApprove, ""); belljar.CodeOf(err) != code {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, d := range []belljar.ApprovalDecision{{}, {Decision: "maybe"}, {Decision: belljar.DecisionDeny, Note: strings.Repeat("x", 1001)}} {
		if _, err := b.service.As(opa).Admin().Decide(t.Context(), run.ID, d); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
			t.Errorf("%+v: %v", d, err)
		}
	}
	if _, err := b.service.As(opa).Admin().Approvals(t.Context(), belljar.ApprovalQuery{State: "open"}); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Error(err)
	}
	b.pending(run.ID)
}

// A request that waits for an approval uses no resources of others, and the number of such requests is bounded.
func TestApprovalTakesNoPlace(t *testing.T) {
	t.Parallel()
	b := newBench(t, asking("timeout_sec>600"), one, func(o *service.Options) {
		o.QueueLength, o.MaxUserApprovals, o.MaxApprovals, o.Quota.CPU, o.Quota.ConcurrentRuns = -1, 2, 3, 1.5, 1
	})
	mine := b.seen(ann)
	first, second := mine.start(big("echo first")), mine.start(big("echo second"))
	if _, err := mine.Start(t.Context(), big("true")); belljar.CodeOf(err) != belljar.CodeQuotaExceeded {
		t.Errorf("a third of one user: %v", err)
	}
	ben := b.seen(belljar.Caller{ID: "ben", Role: belljar.RoleUser})
	third := ben.start(big("true"))
	if _, err := ben.Start(t.Context(), big("true")); belljar.CodeOf(err) != belljar.CodeQuotaExceeded || !strings.Contains(err.Error(), "the server has") {
		t.Errorf("a fourth in all: %v", err)
	}
	if r := mine.run(shell("echo small")); r.stdout != "small\n" {
		t.Errorf("%+v", r.Run)
	}
	b.settled(ann)
	busy, end := mine.busy()
	if _, err := b.decide(first.ID, belljar.DecisionApprove, ""); belljar.CodeOf(err) != belljar.CodeQuotaExceeded {
		t.Errorf("approved beyond its user's quota of cores: %v", err)
	}
	mine.pending(first.ID)
	end()
	mine.follow(busy.ID)
	for _, run := range []belljar.Run{first, second} {
		b.settled(ann)
		b.approve(run.ID)
		mine.follow(run.ID).want(t, belljar.PhaseCompleted, 0, "")
	}
	b.approve(third.ID)
	ben.follow(third.ID).want(t, belljar.PhaseCompleted, 0, "")
}

// settled waits until a user's ended sandboxes use no resources.
func (b *bench) settled(user belljar.Caller) {
	b.t.Helper()
	for {
		me, err := b.service.As(user).Node().Me(b.context())
		if err != nil {
			b.t.Fatal(err)
		}
		if me.Used.CPU == 0 {
			return
		}
	}
}

// Of concurrent decisions, cancellations and expiries, exactly one wins, and no run starts without an approval.
func TestApprovalRaces(t *testing.T) {
	t.Parallel()
	clock := newHourglass()
	b := newBench(t, asking("timeout_sec>600"), func(o *service.Options) { o.Clock = clock }).seen(ann)
	for round := range 30 {
		run := b.start(big("echo ran"))
		var wins atomic.Int32
		var wg sync.WaitGroup
		for i, d := range []string{belljar.DecisionApprove, belljar.DecisionDeny, belljar.DecisionApprove} {
			wg.Go(func() {
				by := belljar.Caller{ID: fmt.Sprint("op", i), Role: belljar.RoleAdmin}
				switch _, err := b.service.As(by).Admin().Decide(b.context(), run.ID, belljar.ApprovalDecision{Decision: d}); {
				case err == nil:
					wins.Add(1)
				case belljar.CodeOf(err) != belljar.CodeConflict:
					t.Error(err)
				}
			})
		}
		switch round % 3 {
		case 1:
			wg.Go(func() {
				if err := b.Cancel(b.context(), run.ID); err != nil {
					t.Error(err)
				}
			})
		case 2:
			wg.Go(func() { clock.pass(time.Hour) })
		}
		wg.Wait()
		r := b.follow(run.ID)
		if state := r.Approval.State; (r.StartedAt != nil || r.stdout != "") && state != belljar.ApprovalApproved ||
			state == belljar.ApprovalPending || (wins.Load() == 1) != (r.Approval.DecidedBy != "") || wins.Load() > 1 || wins.Load() == 0 && round%3 == 0 {
			t.Errorf("%d won: %+v, %+v", wins.Load(), r.Run, *r.Approval)
		}
	}
}

// For operators, only the rules about programs that act in their name apply.
func TestApprovalOfOperators(t *testing.T) {
	t.Parallel()
	b := newBench(t, asking("timeout_sec>600", "source=mcp"))
	if r := b.seen(opa).run(big("echo mine")); r.Approval != nil || r.stdout != "mine\n" {
		t.Errorf("%+v", r.Run)
	}
	agent := opa
	agent.Source = "MCP"
	run := b.seen(agent).start(shell("echo its"))
	if a := b.seen(agent).pending(run.ID); !slices.Equal(a.Reasons, []string{"source=mcp"}) {
		t.Errorf("%+v", a)
	}
	b.approve(run.ID)
	b.seen(agent).follow(run.ID).want(t, belljar.PhaseCompleted, 0, "")
}

// A waiting request continues to wait in the next process. A request that was decided meanwhile, or only partly, continues.
func TestApprovalSurvives(t *testing.T) {
	t.Parallel()
	var o service.Options
	clock, events := newHourglass(), diary{}
	b := newBench(t, asking("timeout_sec>600"), func(o *service.Options) { o.Clock, o.Events = clock, &events }, parts(&o)).seen(ann)
	asked := func(state belljar.ApprovalState, stored bool) store.Run {
		req := big("echo again")
		row := leftRow(belljar.PhaseQueued, &req.RunSpec)
		sample := b.start(req) // the record of such a run
		a := b.pending(sample.ID)
		if err := b.Cancel(b.context(), sample.ID); err != nil {
			t.Fatal(err)
		}
		a.ID = row.ID
		row.UserID, row.Approval, row.PolicyHash = "ann", &a, sample.PolicyHash
		leave(t, o, row, append(phases(belljar.PhaseQueued), belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventApproval}))
		if decided := a; stored {
			if decided.State = state; state != belljar.ApprovalPending {
				decided.DecidedBy, decided.DecidedAt = "opa", new(clock.Now())
			}
			if err := o.Store.Approvals().Put(t.Context(), decided); err != nil {
				t.Fatal(err)
			}
		}
		return row
	}
	waits, torn := asked(belljar.ApprovalPending, true), asked(belljar.ApprovalPending, false)
	approved, denied := asked(belljar.ApprovalApproved, true), asked(belljar.ApprovalDenied, true)
	forged := asked(belljar.ApprovalApproved, true)
	forged.Spec.Command[2] = "echo other"
	if err := o.Store.Runs().Update(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	unasked := big("echo unasked") // under new rules
	ungated := leftRow(belljar.PhaseQueued, &unasked.RunSpec)
	ungated.UserID, ungated.PolicyHash = "ann", "other"
	leave(t, o, ungated, phases(belljar.PhaseQueued))
	ended := asked(belljar.ApprovalPending, true) // the end of its approval was not recorded
	ended.Phase, ended.FinishedAt, ended.Spec = belljar.PhaseKilled, new(clock.Now()), nil
	if err := o.Store.Runs().Finish(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	b.recover()
	if a, err := o.Store.Approvals().Get(t.Context(), ended.ID); err != nil || a.State != belljar.ApprovalWithdrawn || a.DecidedAt == nil {
		t.Errorf("of a run that has ended: %+v, %v", a, err)
	}
	for id, want := range map[string][]string{
		waits.ID: {event.ApprovalResumed}, torn.ID: {event.ApprovalRequested}, ungated.ID: {event.ApprovalRequested},
		approved.ID: nil, ended.ID: {event.ApprovalResumed, event.ApprovalWithdrawn},
	} {
		if got := events.ofApproval(id); !slices.Equal(got, want) {
			t.Errorf("of %s: %q, want %q", id, got, want)
		}
	}
	if r := b.follow(approved.ID); r.stdout != "again\n" || r.Approval.DecidedBy != "opa" {
		t.Errorf("%+v", r.Run)
	}
	for _, row := range []store.Run{denied, forged} {
		run, err := b.Get(t.Context(), row.ID)
		for err == nil && !run.Phase.Terminal() {
			time.Sleep(time.Millisecond)
			run, err = b.Get(t.Context(), row.ID)
		}
		if err != nil || run.ReasonCode != belljar.ReasonPolicyDenied || run.StartedAt != nil {
			t.Errorf("%+v, %v", run, err)
		}
	}
	for _, row := range []store.Run{waits, torn, ungated} {
		b.pending(row.ID)
		b.approve(row.ID)
		if r := b.follow(row.ID); r.Phase != belljar.PhaseCompleted || r.Approval.State != belljar.ApprovalApproved {
			t.Errorf("%+v", r.Run)
		}
	}
}

func TestApprovalOfSessions(t *testing.T) {
	t.Parallel()
	clock := newHourglass()
	b := newBench(t, asking("timeout_sec>600"), func(o *service.Options) { o.Clock = clock }).seen(ann)
	sessions := b.service.As(ann).Sessions()
	ask := belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.1", BaseImage: "host", TimeoutSec: 900,
		Scope: belljar.Scope{Namespace: "workflow", ID: "w"}}}
	x, created, err := sessions.Open(b.context(), ask)
	if err != nil || !created || x.State != belljar.SessionStarting || x.Approval == nil || x.Approval.State != belljar.ApprovalPending || x.Approval.Kind != "session" {
		t.Fatalf("%+v, %v", x, err)
	}
	if again, created, err := sessions.Open(b.context(), ask); err != nil || created || again.ID != x.ID || again.Approval.State != belljar.ApprovalPending {
		t.Errorf("%+v, %t, %v", again, created, err)
	}
	inside := func(timeout float64) belljar.RunRequest {
		return belljar.RunRequest{RunSpec: belljar.RunSpec{SpecVersion: "1.1", SessionID: x.ID, Command: []string{"/bin/echo", "in"}, TimeoutSec: timeout}}
	}
	for what, use := range map[string]func() error{
		"run":  func() error { _, err := b.Start(b.context(), inside(1)); return err },
		"file": func() error { _, err := b.service.As(ann).Files().Stat(b.context(), x.ID, "."); return err },
		"terminal": func() error {
			_, err := b.service.As(ann).Terminals().Open(b.context(), x.ID, belljar.TerminalSpec{})
			return err
		},
		"ports": func() error { _, err := b.service.As(ann).Ports().List(b.context(), x.ID); return err },
		"network": func() error {
			_, err := sessions.SetNetwork(b.context(), x.ID, belljar.NetworkSpec{NetworkPolicy: belljar.NetworkDenyAll})
			return err
		},
	} {
		if err := use(); belljar.CodeOf(err) != belljar.CodeConflict || !strings.Contains(err.Error(), "waits for an operator's approval") {
			t.Errorf("%s: %v", what, err)
		}
	}
	clock.pass(50 * time.Minute)
	b.service.Reap(b.context())
	b.approve(x.ID)
	r := b.run(inside(1))
	r.want(t, belljar.PhaseCompleted, 0, "")
	long := b.start(inside(1001))
	if a := b.pending(long.ID); a.SessionID != x.ID || !slices.Equal(a.Reasons, []string{"timeout_sec>600: 1001"}) {
		t.Errorf("%+v", a)
	}
	if x, err = sessions.Get(b.context(), x.ID); err != nil || x.State != belljar.SessionActive || !x.ExpiresAt.After(clock.Now().Add(50*time.Minute)) {
		t.Errorf("%+v, %v", x, err)
	}
	if err := sessions.Delete(b.context(), x.ID); err != nil {
		t.Fatal(err)
	}
	b.follow(long.ID).want(t, belljar.PhaseKilled, -1, belljar.ReasonCanceledByUser)

	ask.Scope = belljar.Scope{}
	for what, end := range map[belljar.SessionState]func(id string) error{
		belljar.SessionClosed:  func(id string) error { _, err := b.decide(id, belljar.DecisionDeny, "no"); return err },
		belljar.SessionExpired: func(string) error { clock.pass(time.Hour); return nil },
		"deleted":              func(id string) error { return sessions.Delete(b.context(), id) },
	} {
		y, err := sessions.Create(b.context(), ask)
		if err == nil {
			err = end(y.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		for err == nil && !y.State.Ended() {
			time.Sleep(time.Millisecond)
			y, err = sessions.Get(b.context(), y.ID)
		}
		if err != nil || what != "deleted" && y.State != what || y.Approval.State == belljar.ApprovalPending || y.Message == "" {
			t.Errorf("%s: %+v, %v", what, y, err)
		}
	}
}

// A waiting session still exists after a restart.
func TestApprovalOfASessionSurvives(t *testing.T) {
	t.Parallel()
	kept := &records{}
	var o service.Options
	b := newBench(t, asking("timeout_sec>600"), recorded(kept), func(o *service.Options) { o.Lifetime, o.Vault = "detached", vault.Temporary() }, parts(&o)).seen(ann)
	ask := belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.1", BaseImage: "host", TimeoutSec: 900}}
	if _, err := b.service.As(ann).Secrets().Set(b.context(), "KEPT", belljar.SecretSpec{Value: password}); err != nil {
		t.Fatal(err)
	}
	ask.Secrets = map[string]belljar.Secret{"TOKEN": {From: "KEPT"}}
	x, err := b.service.As(ann).Sessions().Create(b.context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	then := big("echo then")
	then.Secrets = ask.Secrets
	run := b.start(then)
	if err := b.service.Close(); err != nil {
		t.Fatal(err)
	}
	next := newBench(t, func(n *service.Options) {
		*n = o
		n.Policy.Approval = append(n.Policy.Approval, "secrets")
	}).seen(ann)
	next.recover()
	if a := next.pending(run.ID); !slices.Contains(a.Reasons, "secrets: TOKEN (from KEPT)") {
		t.Errorf("the new rule names %q", a.Reasons)
	}
	sessions := next.service.As(ann).Sessions()
	if got, err := sessions.Get(t.Context(), x.ID); err != nil || got.Approval.State != belljar.ApprovalPending || got.State != belljar.SessionStarting {
		t.Fatalf("%+v, %v", got, err)
	}
	next.pending(run.ID)
	next.approve(run.ID)
	next.follow(run.ID).want(t, belljar.PhaseCompleted, 0, "")
	next.approve(x.ID)
	r := next.run(belljar.RunRequest{RunSpec: belljar.RunSpec{SpecVersion: "1.1", SessionID: x.ID, Command: []string{"/bin/echo", "in"}}})
	r.want(t, belljar.PhaseCompleted, 0, "")
	if err := sessions.Delete(context.Background(), x.ID); err != nil {
		t.Fatal(err)
	}
}
