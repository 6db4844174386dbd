//go:build linux

package service_test

import (
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/service"
)

// The audit trail names the operator for what they do with the runs and sessions of a user, with the operator's request.
func TestActor(t *testing.T) {
	ann := belljar.Caller{ID: "ann", Role: belljar.RoleUser, RequestID: "first"}
	again := belljar.Caller{ID: "ann", Role: belljar.RoleUser, RequestID: "second"}
	operator := belljar.Caller{ID: "root", Role: belljar.RoleAdmin, RequestID: "third", Address: "192.0.2.1"}
	events := &diary{}
	b := newBench(t, func(o *service.Options) { o.Events, o.Ports.Previews, o.Ports.PreviewsPerSession = events, true, 8 })
	last := func(name string, want belljar.Caller) {
		t.Helper()
		list := events.named(name)
		if len(list) == 0 || list[len(list)-1].Caller != want {
			t.Errorf("%s: %+v", name, list)
		}
	}
	users, admins := b.service.As(ann), b.service.As(operator)
	b.Runs = users.Runs()
	req := spec()
	req.Scope = belljar.Scope{Namespace: "workflow", ID: "1", Key: "a"}
	x, err := users.Sessions().Create(b.context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.service.As(again).Sessions().Open(b.context(), req); err != nil {
		t.Fatal(err)
	}
	last(event.SessionResumed, again)

	run := b.start(in(x, "echo begun; exec sleep 1000"))
	b.waitFor(run.ID, "begun")
	if err := admins.Runs().Cancel(b.context(), run.ID); err != nil {
		t.Fatal(err)
	}
	b.follow(run.ID).want(t, belljar.PhaseKilled, 143, belljar.ReasonCanceledByUser)
	last(event.RunKilled, operator)
	b.run(in(x, "true")).want(t, belljar.PhaseCompleted, 0, "")
	last(event.RunCompleted, ann)

	term, err := admins.Terminals().Open(b.context(), x.ID, belljar.TerminalSpec{Command: []string{"cat"}})
	if err != nil {
		t.Fatal(err)
	}
	last(event.TerminalOpened, operator)
	if err := b.service.As(again).Terminals().Close(b.context(), term.ID); err != nil {
		t.Fatal(err)
	}
	b.eventually("the end of the terminal", func() bool { return len(events.named(event.TerminalEnded)) > 0 })
	last(event.TerminalEnded, again)

	made, err := users.Ports().Preview(b.context(), x.ID, belljar.PreviewSpec{Port: 8080})
	if err != nil {
		t.Fatal(err)
	}
	if err := admins.Ports().Revoke(b.context(), x.ID, made.Label); err != nil {
		t.Fatal(err)
	}
	last(event.PreviewEnded, operator)

	if _, err := admins.Sessions().Hibernate(b.context(), x.ID, belljar.HibernateSpec{}); err != nil {
		t.Fatal(err)
	}
	last(event.SessionHibernated, operator)
	run = b.start(in(x, "echo begun; exec sleep 1000"))
	b.waitFor(run.ID, "begun")
	if err := admins.Sessions().Delete(b.context(), x.ID); err != nil {
		t.Fatal(err)
	}
	last(event.SessionEnded, operator)
	b.follow(run.ID)
	last(event.RunKilled, operator)
}
