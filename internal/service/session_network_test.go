//go:build linux

package service_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/store"
)

// relays makes a runtime claim that its sandboxes have packages, and its agents a relay, although they have none.
func relays(caps *runtime.Capabilities) { caps.Relay, caps.Layers = true, true }

// A recorded change of a session's network is in the audit trail, with its caller, even if the call fails afterwards.
func TestNetworkChangeIsRecorded(t *testing.T) {
	var events diary
	b := newBench(t, func(o *service.Options) {
		o.Runtimes[0], o.Events, o.Policy = claiming{o.Runtimes[0], relays}, &events, service.DefaultPolicy()
		o.Policy.EgressAllow = []string{"*"}
	})
	sessions := b.service.As(service.Local()).Sessions()
	x, err := b.service.As(ann).Sessions().Create(b.context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.0", BaseImage: "host"}})
	if err != nil {
		t.Fatal(err)
	}
	asked := belljar.NetworkSpec{NetworkPolicy: belljar.NetworkAllowlist, Egress: belljar.Egress{Hosts: []string{"example.com"}}}
	_, err = sessions.SetNetwork(b.context(), x.ID, asked)
	refusedAs(t, "an agent without a relay", err, belljar.CodeRuntimeUnavailable)
	if got, err := sessions.Network(b.context(), x.ID); err != nil || !slices.Equal(got.Egress.Hosts, asked.Egress.Hosts) {
		t.Errorf("in force is %+v, %v", got, err)
	}
	if got := events.named(event.SessionNetwork); len(got) != 1 || got[0].Kind != belljar.NetworkAllowlist || got[0].Caller.ID != service.Local().ID {
		t.Errorf("the audit trail has %+v", got)
	}
}

// A user whose daily traffic is used up gets no network for a session without one, no clone and no packages. The network of another session can still be narrowed.
func TestNetworkQuota(t *testing.T) {
	var o service.Options
	clock := newHourglass()
	b := newBench(t, func(o *service.Options) {
		o.Runtimes[0], o.Clock, o.Policy = claiming{o.Runtimes[0], relays}, clock, service.DefaultPolicy()
		o.Policy.EgressAllow, o.Policy.EgressPresets, o.Quota.EgressMBPerDay = []string{"*"}, []string{"pip"}, 1
	}, parts(&o))
	sessions := b.service.As(ann).Sessions()
	var ids []string
	for range 2 {
		x, err := sessions.Create(b.context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.0", BaseImage: "host"}})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, x.ID)
	}
	set := func(id string, want belljar.Code, hosts ...string) {
		t.Helper()
		_, err := sessions.SetNetwork(b.context(), id, belljar.NetworkSpec{NetworkPolicy: belljar.NetworkAllowlist, Egress: belljar.Egress{Hosts: hosts}})
		refusedAs(t, "a network", err, want)
	}
	const inForce = belljar.CodeRuntimeUnavailable // the agents have no relay
	set(ids[0], inForce, "a.example.com", "b.example.com")
	if err := o.Store.Users().Charge(b.context(), ann.ID, store.Charge{EgressBytes: 1 << 20}, clock.Now()); err != nil {
		t.Fatal(err)
	}
	set(ids[0], inForce, "a.example.com")
	set(ids[1], belljar.CodeQuotaExceeded, "a.example.com")
	repository := &belljar.GitSpec{URL: "https://git.example.com/a.git"}
	_, err := sessions.Create(b.context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.0", BaseImage: "host", Git: repository}})
	refusedAs(t, "a session with a clone", err, belljar.CodeQuotaExceeded)
	run := shell("true")
	run.Git = repository
	_, err = b.service.As(ann).Runs().Start(b.context(), run)
	refusedAs(t, "a run with a clone", err, belljar.CodeQuotaExceeded)
	packages := belljar.Packages{Pip: []string{"a"}}
	_, err = sessions.Create(b.context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: "1.0", BaseImage: "host", Packages: packages}})
	refusedAs(t, "a session with packages", err, belljar.CodeQuotaExceeded)
	run.Git, run.Packages = nil, packages
	_, err = b.service.As(ann).Runs().Start(b.context(), run)
	refusedAs(t, "a run with packages", err, belljar.CodeQuotaExceeded)
	if got, err := sessions.Network(b.context(), ids[1]); err != nil || got.NetworkPolicy != belljar.NetworkDenyAll {
		t.Errorf("in force is %+v, %v", got, err)
	}
}

// mirrored has agents with a relay, and a preset with an index of the operator.
func mirrored(t *testing.T, preset string) func(*service.Options) {
	return func(o *service.Options) {
		rt := fake.New(fake.Options{Dir: t.TempDir(), Ports: true})
		t.Cleanup(func() {
			if err := rt.Close(); err != nil {
				t.Error(err)
			}
		})
		o.Runtimes[0], o.Policy = claiming{rt, relays}, service.DefaultPolicy()
		o.Policy.EgressAllow, o.Policy.EgressPresets, o.Policy.PackageMirrors = []string{"*"}, []string{preset}, []string{preset + "=https://mirror.example.com/maven/"}
	}
}

// After a change that failed because a preset's file could not be written, the same change writes it.
func TestNetworkFilesAgain(t *testing.T) {
	b := newBench(t, mirrored(t, "maven"))
	x := b.open()
	asked := belljar.NetworkSpec{NetworkPolicy: belljar.NetworkAllowlist, Egress: belljar.Egress{Presets: []string{"maven"}}}
	b.in(x.ID, "touch .belljar")
	if _, err := b.mine().SetNetwork(b.context(), x.ID, asked); err == nil {
		t.Fatal("a file in the place of a folder was no obstacle")
	}
	b.in(x.ID, "rm .belljar")
	if _, err := b.mine().SetNetwork(b.context(), x.ID, asked); err != nil {
		t.Fatal(err)
	}
	b.in(x.ID, "grep mirror.example.com .belljar/.m2/settings.xml; echo own >.belljar/.m2/settings.xml")
	if _, err := b.mine().SetNetwork(b.context(), x.ID, asked); err != nil {
		t.Fatal(err)
	}
	wantText(t, b.in(x.ID, "cat .belljar/.m2/settings.xml").stdout, "own\n") // a change of other rules keeps the user's file
}

// The files of a preset replace no file of a project, neither in a session that gets the preset nor in its copies.
func TestPresetKeepsProject(t *testing.T) {
	b := newBench(t, mirrored(t, "maven"))
	d := b.cabinet()
	d.write(".m2/settings.xml", "own")
	asked := belljar.NetworkSpec{NetworkPolicy: belljar.NetworkAllowlist, Egress: belljar.Egress{Presets: []string{"maven"}}}
	if _, err := b.mine().SetNetwork(b.context(), d.ID, asked); err != nil {
		t.Fatal(err)
	}
	made, err := b.snapshots().Fork(b.context(), d.ID, belljar.ForkSpec{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []belljar.Session{d.Session, made.Sessions[0]} {
		d.Session = s
		wantText(t, d.read(".m2/settings.xml"), "own")
		if text := d.read(".belljar/.m2/settings.xml"); !strings.Contains(text, "mirror.example.com") {
			t.Errorf("%q", text)
		}
	}
}

// A session keeps a preset in a change of its network, although what its tool prints is no longer cached.
func TestNetworkKeepsPreset(t *testing.T) {
	b := newBench(t, mirrored(t, "apt")) // without a data folder, nothing is cached
	egress := belljar.Egress{Presets: []string{"apt"}}
	x := b.open(func(r *belljar.SessionRequest) { r.NetworkPolicy, r.Egress = belljar.NetworkAllowlist, egress })
	egress.Hosts = []string{"example.com"}
	if _, err := b.mine().SetNetwork(b.context(), x.ID, belljar.NetworkSpec{NetworkPolicy: belljar.NetworkAllowlist, Egress: egress}); err != nil {
		t.Fatal(err)
	}
	if got, err := b.mine().Get(b.context(), x.ID); err != nil || len(got.Presets) != 1 || !slices.Contains(got.Presets[0].Hosts, "mirror.example.com") {
		t.Errorf("%+v, %v", got.Presets, err)
	}
}
