//go:build linux

package service_test

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
)

// A hibernated session stays unchanged while the server lacks its runtime, reports that to its users, and resumes when the runtime is back.
func TestHibernatedWithoutItsRuntime(t *testing.T) {
	w := newWorld(t)
	with := func(o *service.Options) { o.Runtimes = append(o.Runtimes, renamed{o.Runtimes[0], "second"}) }
	p := w.boot(with)
	scope := belljar.Scope{Namespace: "workflow", ID: "1", Key: "a"}
	open := func(p *process) belljar.Session {
		return p.open(func(r *belljar.SessionRequest) { r.Runtime, r.Scope = "second", scope })
	}
	x, other := open(p), p.open(func(r *belljar.SessionRequest) { r.Runtime = "second" })
	p.in(x.ID, "echo text >file")
	p.sleeping(x.ID)
	p.sleeping(other.ID)
	p.kill()

	p = w.boot()
	if err := p.service.Sweep(p.context()); err != nil {
		t.Fatal(err)
	}
	p.state(x.ID, belljar.SessionHibernated)
	all := p.service.As(service.Local())
	for what, use := range map[string]func() error{
		"a run":     func() error { _, err := p.Start(p.context(), in(x, "true")); return err },
		"a file":    func() error { _, err := all.Files().Stat(p.context(), x.ID, "file"); return err },
		"a context": func() error { _, err := all.Contexts().List(p.context(), x.ID); return err },
		"a network": func() error {
			_, err := all.Sessions().SetNetwork(p.context(), x.ID, belljar.NetworkSpec{NetworkPolicy: belljar.NetworkAllowlist})
			return err
		},
	} {
		var e *belljar.Error
		if err := use(); !errors.As(err, &e) || e.Code != belljar.CodeRuntimeUnavailable || e.Details["state"] != "hibernated" || e.Details["runtime"] != "second" || e.Hint == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	p.end(other)
	p.kill()

	p = w.boot(with)
	wantText(t, p.in(x.ID, "cat file").stdout, "text\n")
	p.end(x)
}

// A session that resumes on another version of its runtime reports that.
func TestHibernatedMeetsAnotherRuntime(t *testing.T) {
	w := newWorld(t)
	version := func(text string) func(*service.Options) {
		return func(o *service.Options) {
			o.Runtimes[0] = claiming{o.Runtimes[0], func(caps *runtime.Capabilities) {
				caps.Version = text
				caps.Protections = append(caps.Protections, runtime.Protection{Name: runtime.ProtectDisk, By: text})
			}}
		}
	}
	p := w.boot(version("one"))
	x := p.open()
	p.sleeping(x.ID)
	p.kill()
	p = w.boot(version("two"))
	p.in(x.ID, "true")
	if got := p.state(x.ID, belljar.SessionActive); got.RuntimeVersion != "two" || got.LimitsEnforced[runtime.ProtectDisk] != "two" {
		t.Errorf("version %s, enforced by %s; it was made with version %s", got.RuntimeVersion, got.LimitsEnforced, x.RuntimeVersion)
	}
	p.end(x)
}

// illegible is a store that cannot read the records of sessions.
type illegible struct{ store.Store }

func (s illegible) Sessions() store.Sessions { return illegibleSessions{s.Store.Sessions()} }

type illegibleSessions struct{ store.Sessions }

func (illegibleSessions) Unfinished(context.Context) ([]store.Session, error) { return nil, nil }
func (illegibleSessions) Get(context.Context, string) (store.Session, error) {
	return store.Session{}, store.ErrCorrupt
}

// The files of a hibernated session stay while its record cannot be read, in case a backup restores the record.
func TestHibernatedWithoutItsRecord(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	x := p.open()
	p.in(x.ID, "echo text >file")
	p.sleeping(x.ID)
	p.kill()
	w.boot(func(o *service.Options) { o.Store = illegible{o.Store} }).kill()
	p = w.boot()
	wantText(t, p.in(x.ID, "cat file").stdout, "text\n")
	p.end(x)
}

// A hibernated session ends when its files expire, even if the lifetime was raised at the restart.
func TestHibernatedUntilItsFilesGo(t *testing.T) {
	clock := newHourglass()
	w := newWorld(t, func(o *service.Options) { o.Clock, o.SessionTTL = clock, 10*time.Hour })
	p := w.boot(func(o *service.Options) { o.SessionLifetime = time.Hour })
	x := p.open()
	p.sleeping(x.ID)
	p.kill()
	p = w.boot(func(o *service.Options) { o.SessionLifetime = 10 * time.Hour })
	if got := p.state(x.ID, belljar.SessionHibernated); !got.ExpiresAt.Equal(x.CreatedAt.Add(time.Hour)) {
		t.Errorf("it was made at %v, and expires at %v", x.CreatedAt, got.ExpiresAt)
	}
	p.end(x)
}

// The record of a hibernated session includes uses that do not resume it but restart its TTL.
func TestHibernatedIsUsed(t *testing.T) {
	clock := newHourglass()
	w := newWorld(t, func(o *service.Options) { o.Clock, o.SessionTTL = clock, time.Hour })
	p := w.boot()
	x, _ := p.opened(scoped("workflow:1"))
	p.sleeping(x.ID)
	clock.pass(50 * time.Minute)
	if again, created := p.opened(scoped("workflow:1")); created || again.ID != x.ID || again.State != belljar.SessionHibernated {
		t.Errorf("%v, %+v", created, again)
	}
	p.service.Reap(p.context())
	clock.pass(50 * time.Minute)
	p.kill()
	p = w.boot()
	p.state(x.ID, belljar.SessionHibernated)
	p.end(x)
}

// A session that hibernates in the next process keeps its shell, even if that was first used just before the process died.
func TestShellOfADeadProcess(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	x := p.open()
	p.run(shellIn(x.ID, "variable=kept"))
	p.kill()
	p = w.boot()
	p.sleeping(x.ID)
	wantText(t, p.run(shellIn(x.ID, "echo $variable")).stdout, "kept\n")
	p.end(x)
}

// uncounted is a store that cannot list runs.
type uncounted struct{ store.Store }

func (s uncounted) Runs() store.Runs { return uncountedRuns{s.Store.Runs()} }

type uncountedRuns struct{ store.Runs }

func (uncountedRuns) List(context.Context, belljar.RunQuery) ([]store.Run, int, error) {
	return nil, 0, syscall.EIO
}

// unprobed is a runtime that cannot be probed.
type unprobed struct{ runtime.Runtime }

func (unprobed) Probe(context.Context) (runtime.Capabilities, error) {
	return runtime.Capabilities{}, syscall.EMFILE
}

// A restart at which the store fails once, or a runtime, ends no session that can continue later.
func TestRestartWithFaults(t *testing.T) {
	w := newWorld(t)
	p := w.boot()
	asleep, awake := p.open(), p.open()
	for _, x := range []belljar.Session{asleep, awake} {
		p.in(x.ID, "echo text >file")
	}
	p.sleeping(asleep.ID)
	p.kill()
	p = w.boot(func(o *service.Options) { o.Store = uncounted{o.Store} })
	p.state(awake.ID, belljar.SessionActive)
	if got := p.state(asleep.ID, belljar.SessionHibernated); got.Runs != 1 {
		t.Errorf("it has had %d runs", got.Runs)
	}
	p.kill()
	p = w.boot()
	p.end(awake)
	p.kill()
	w.boot(func(o *service.Options) { o.Runtimes[0] = unprobed{o.Runtimes[0]} }).kill()
	p = w.boot()
	wantText(t, p.in(asleep.ID, "cat file").stdout, "text\n")
	p.end(asleep)
}

// A request of an operator with a trust level below the default one still is one after a restart: its session wakes, and its run begins. Under a
// stricter policy the trust level of a user is older than the default, and is checked again.
func TestTrustLevelAfterARestart(t *testing.T) {
	under := func(trust belljar.TrustLevel) func(*service.Options) {
		return func(o *service.Options) {
			o.Policy, o.Concurrency = service.DefaultPolicy(), 1
			o.Policy.DefaultTrust = trust
			o.Runtimes[0] = claiming{o.Runtimes[0], func(caps *runtime.Capabilities) { caps.Isolation = runtime.IsolationNamespace }}
		}
	}
	for name, c := range map[string]struct {
		before belljar.TrustLevel
		role   belljar.Role
		denied bool
	}{"an operator": {belljar.TrustUntrusted, belljar.RoleAdmin, false}, "a user": {belljar.TrustTrusted, belljar.RoleUser, true}} {
		t.Run(name, func(t *testing.T) {
			caller := belljar.Caller{ID: "local", Role: c.role}
			w := newWorld(t)
			p := w.boot(under(c.before))
			p.Runs = p.service.As(caller).Runs()
			req := spec()
			req.TrustLevel = belljar.TrustTrusted
			x, err := p.service.As(caller).Sessions().Create(p.context(), req)
			if err != nil {
				t.Fatal(err)
			}
			p.sleeping(x.ID)
			first, queued := shell("echo begun; exec sleep 1000"), shell("true")
			first.TrustLevel, queued.TrustLevel = belljar.TrustTrusted, belljar.TrustTrusted
			running := p.start(first)
			p.waitFor(running.ID, "begun")
			waiting := p.start(queued)
			p.kill()

			p = w.boot(under(belljar.TrustUntrusted))
			if err := p.Cancel(p.context(), running.ID); err != nil {
				t.Fatal(err)
			}
			if r, _, err := belljar.Collect(p.context(), p, waiting.ID); err != nil || (r.Phase == belljar.PhaseCompleted) == c.denied {
				t.Errorf("the run: %s, %s, %v", r.Phase, r.Message, err)
			}
			_, err = p.service.As(service.Local()).Files().Stat(p.context(), x.ID, ".")
			if (belljar.CodeOf(err) == belljar.CodePolicyDenied) != c.denied || (err == nil) == c.denied {
				t.Errorf("the session: %v", err)
			}
			p.end(x)
		})
	}
}

// The sessions of an operator with a trust level below the default one reach after two restarts what they reached before, also in a sandbox that
// is strong enough for the default one. A user with the same request is no operator after it: its network has the default level's rules, and its
// queued run no weaker runtime.
func TestOperatorsAfterARestart(t *testing.T) {
	policy := func(o *service.Options) {
		o.Policy, o.Concurrency = service.DefaultPolicy(), 1
		o.Policy.DefaultTrust, o.Policy.EgressAllow, o.Policy.EgressAllowTrust = belljar.TrustUntrusted, []string{"*"}, []string{"untrusted=example.org"}
		o.Egress.Resolver = publicNames{}
		claims := func(is runtime.Isolation) func(*runtime.Capabilities) {
			return func(caps *runtime.Capabilities) {
				relays(caps)
				caps.Isolation = is
			}
		}
		weak, strong := claiming{o.Runtimes[0], claims(runtime.IsolationNamespace)}, claiming{renamed{o.Runtimes[0], "strong"}, claims(runtime.IsolationMicroVM)}
		o.Runtimes = []runtime.Runtime{weak, strong}
	}
	w := newWorld(t)
	p := w.boot(policy)
	type place struct {
		role    belljar.Role
		runtime string
	}
	open := map[place]belljar.Session{}
	asked := belljar.NetworkSpec{NetworkPolicy: belljar.NetworkAllowlist, Egress: belljar.Egress{Hosts: []string{"api.example.com", "example.org"}}}
	for _, at := range []place{{belljar.RoleAdmin, "fake"}, {belljar.RoleAdmin, "strong"}, {belljar.RoleUser, "strong"}} {
		sessions, req := p.service.As(belljar.Caller{ID: "local", Role: at.role}).Sessions(), spec()
		req.TrustLevel, req.Runtime = belljar.TrustTrusted, at.runtime
		x, err := sessions.Create(p.context(), req)
		if err != nil {
			t.Fatal(err)
		}
		_, err = sessions.SetNetwork(p.context(), x.ID, asked)
		refusedAs(t, "an agent without a relay", err, belljar.CodeRuntimeUnavailable)
		open[at] = x
	}
	p.Runs = p.service.As(belljar.Caller{ID: "local", Role: belljar.RoleUser}).Runs()
	first, queued := shell("echo begun; exec sleep 1000"), shell("true")
	first.TrustLevel, queued.TrustLevel = belljar.TrustTrusted, belljar.TrustTrusted
	running := p.start(first)
	p.waitFor(running.ID, "begun")
	waiting := p.start(queued)
	networked := queued
	networked.Runtime, networked.NetworkPolicy, networked.Egress = "strong", asked.NetworkPolicy, asked.Egress
	reaching := map[belljar.Role]string{}
	for _, role := range []belljar.Role{belljar.RoleAdmin, belljar.RoleUser} {
		run, err := p.service.As(belljar.Caller{ID: "local", Role: role}).Runs().Start(p.context(), networked)
		if err != nil {
			t.Fatal(err)
		}
		reaching[role] = run.ID
	}
	for restarts := range 3 {
		for at, x := range open {
			got, err := p.service.As(service.Local()).Node().CheckNetwork(p.context(), belljar.NetworkQuery{URL: "https://api.example.com/", SessionID: x.ID})
			if err != nil || got.Allowed != (at.role == belljar.RoleAdmin) {
				t.Errorf("after %d restarts, a session of %v: %+v, %v", restarts, at, got, err)
			}
		}
		for role, id := range reaching {
			if r, err := p.Get(p.context(), id); err != nil || r.Phase != belljar.PhaseQueued || (len(r.Warnings) == 0) != (role == belljar.RoleAdmin) {
				t.Errorf("after %d restarts, a queued run with the role %s: %s, %v, %v", restarts, role, r.Phase, r.Warnings, err)
			}
		}
		if restarts < 2 {
			p.kill()
			p = w.boot(policy)
		}
	}
	for _, id := range []string{reaching[belljar.RoleAdmin], reaching[belljar.RoleUser], running.ID} {
		if err := p.Cancel(p.context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if r, _, err := belljar.Collect(p.context(), p, waiting.ID); err != nil || r.Phase != belljar.PhaseCompleted || r.Runtime != "strong" {
		t.Errorf("the run: %s by %s, %s, %v", r.Phase, r.Runtime, r.Message, err)
	}
	for _, x := range open {
		p.end(x)
	}
}

// publicNames resolves every name to a public address.
type publicNames struct{}

func (publicNames) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
}
