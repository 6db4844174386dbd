package admission

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/runtime"
)

func presetsOf(names ...string) belljar.NetworkSpec {
	return belljar.NetworkSpec{NetworkPolicy: belljar.NetworkAllowlist, Egress: belljar.Egress{Presets: names}}
}

// TestPresets checks the destinations of a request with presets: their hosts, although the server's rules do not list them, and no others.
func TestPresets(t *testing.T) {
	policy := DefaultPolicy()
	policy.EgressAllow, policy.EgressPrivate = []string{"api.example.com", "10.0.0.7"}, true
	policy.EgressPresets, policy.PackageMirrors = []string{"pip", "github"}, []string{"pip=https://pip.example.org"}
	policy.EgressAllowTrust = []string{"untrusted=api.example.com"}
	e, err := policy.Egress()
	if err != nil {
		t.Fatal(err)
	}
	user := belljar.Caller{ID: "ann", Role: belljar.RoleUser}
	for name, want := range map[string]string{"npm": "SANDBOX_EGRESS_PRESETS", "github": "SANDBOX_PACKAGE_MIRRORS"} {
		_, _, err := e.Network(user, "", presetsOf("pip", name))
		var refused *belljar.Error
		if !errors.As(err, &refused) || refused.Code != belljar.CodePolicyDenied || refused.Details["field"] != "egress.presets[1]" || refused.Details["rule"] != want || !strings.Contains(refused.Hint, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	asked := presetsOf("pip")
	asked.Egress.Hosts = []string{"api.example.com", "www.example.com"}
	_, before, err := e.Network(user, "", asked)
	if err != nil {
		t.Fatal(err)
	}
	pip := []belljar.NetworkPreset{{Name: "pip", Hosts: []string{"Files.example.net", "pip.example.org"}}}
	after, err := e.WithPresets(before, pip)
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{
		"api.example.com": "api.example.com", "www.example.com": "", "files.example.net": "preset pip", "pip.example.org": "preset pip", "other.example.org": "",
	} {
		if rule, _ := after.Decide(host, 443); rule != want {
			t.Errorf("%s: rule %q, want %q", host, rule, want)
		}
		if rule, _ := before.Decide(host, 443); strings.HasPrefix(rule, "preset") {
			t.Errorf("%s: the policy itself changed", host)
		}
	}
	if _, reason := after.Decide("pip.example.org", 22); reason != egress.PortDenied {
		t.Errorf("port 22: %s", reason)
	}
	for host, want := range map[string]bool{"pip.example.org": true, "api.example.com": false} { // uses the operator's address
		gate := egress.NewGate(egress.Options{Policy: *after, Resolver: at("10.0.0.7"), Dial: nobody})
		if _, err := gate.Dial(t.Context(), host, 443); errors.Is(err, errDialled) != want {
			t.Errorf("%s at a private address that the operator lists: %v", host, err)
		}
	}
	_, untrusted, err := e.Network(user, belljar.TrustUntrusted, asked)
	if err != nil {
		t.Fatal(err)
	}
	if untrusted, err = e.WithPresets(untrusted, pip); err != nil {
		t.Fatal(err)
	}
	if _, reason := untrusted.Decide("pip.example.org", 443); reason != egress.NoMatch {
		t.Errorf("a level whose rules do not cover it: %q", reason)
	}
	if _, err := e.WithPresets(before, []belljar.NetworkPreset{{Name: "pip", Hosts: []string{"10.0.0.7"}}}); belljar.CodeOf(err) != belljar.CodePolicyDenied {
		t.Errorf("an index without a name: %v", err)
	}
	after, err = e.Recovered(user, "", asked, pip)
	if _, reason := after.Decide("pip.example.org", 443); err != nil || reason != "" {
		t.Errorf("after a restart: %q, %v", reason, err)
	}
	policy.EgressPresets, policy.EgressAllow = []string{"pip"}, nil
	none, err := policy.Egress()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := none.Network(user, "", presetsOf("pip")); err != nil {
		t.Errorf("a preset alone, where the server lists nothing: %v", err)
	}
	if _, _, err := none.Network(user, "", asked); belljar.CodeOf(err) != belljar.CodePolicyDenied {
		t.Errorf("hosts besides it: %v", err)
	}
	policy.EgressPresets = nil
	off, err := policy.Egress()
	if err != nil {
		t.Fatal(err)
	}
	if nothing, err := off.Recovered(user, "", presetsOf("pip"), pip); err == nil {
		t.Error("a preset that was switched off meanwhile is no error")
	} else if _, reason := nothing.Decide("pip.example.org", 443); reason == "" {
		t.Error("a preset that was switched off meanwhile opens its host")
	}
}

// TestIndexPolicy checks the destinations of a side sandbox: the hosts of the index, also at a permitted private address, and no others.
func TestIndexPolicy(t *testing.T) {
	user := belljar.Caller{ID: "ann"}
	for name, c := range map[string]struct {
		allow []string
		asked belljar.Egress
		users []string
		hosts map[string]error // at 10.1.0.7, if they are names
	}{
		"the operator's": {[]string{"*", "10.1.0.0/16"}, belljar.Egress{}, []string{"ann=pip.example.com"}, map[string]error{
			"pip.example.com": errDialled, "10.1.0.9": errDialled, "10.2.0.9": errPrivate, "10.1.2.3": errNoMatch, "203.0.113.7": errDialled, "www.example.com": errNoMatch,
		}},
		"the request's": {[]string{"*"}, belljar.Egress{IPs: []string{"10.1.0.7"}}, nil, map[string]error{
			"pip.example.com": errDialled, "10.1.0.9": errPrivate, "10.1.0.7": errNoMatch,
		}},
		"nobody's": {[]string{"*"}, belljar.Egress{}, nil, map[string]error{"pip.example.com": errPrivate, "10.1.0.9": errPrivate}},
		"not the user's": {[]string{"*"}, belljar.Egress{IPs: []string{"10.1.0.7"}}, []string{"ann=pip.example.com"}, map[string]error{
			"pip.example.com": errPrivate,
		}},
	} {
		e, err := Policy{EgressAllow: c.allow, EgressAllowUsers: c.users, EgressPrivate: true, EgressPorts: []uint16{443}}.Egress()
		if err != nil {
			t.Fatal(err)
		}
		p, err := e.Index(user, "", []string{"pip.example.com", "10.1.0.9", "10.2.0.9", "203.0.113.7"}, c.asked)
		if err != nil {
			t.Fatal(name, err)
		}
		for host, want := range c.hosts {
			gate := egress.NewGate(egress.Options{Policy: *p, Resolver: at("10.1.0.7"), Dial: nobody})
			_, err := gate.Dial(t.Context(), host, 443)
			var denied *egress.DeniedError
			if errors.As(err, &denied) {
				err = reasonError(denied.Reason)
			}
			if !errors.Is(err, want) {
				t.Errorf("%s: %s: %v, want %v", name, host, err, want)
			}
		}
	}
}

// reasonError is a reason as a comparable error.
type reasonError egress.Reason

func (e reasonError) Error() string { return string(e) }

const errPrivate, errNoMatch = reasonError(egress.PrivateAddress), reasonError(egress.NoMatch)

// TestAskLimits checks that the limits for querying tools are within the reservation of the request.
func TestAskLimits(t *testing.T) {
	for _, l := range []belljar.Limits{{MemoryMB: 64, WorkspaceMB: 1000}, {MemoryMB: 64, WorkspaceMB: 16}, {MemoryMB: 2000, WorkspaceMB: 10}, belljar.DefaultLimits()} {
		got := AskLimits(l)
		claimed := max(presetMB, l.MemoryMB) // with a workspace on disk
		if asked := got.MemoryMB + got.WorkspaceMB; asked > claimed || got.MemoryMB < 256 {
			t.Errorf("%+v: %d of %d MiB", l, asked, claimed)
		}
	}
}

// TestApprovalOfPresets checks that a session cannot add a preset that needs an approval.
func TestApprovalOfPresets(t *testing.T) {
	rules := rulesOf(t, "network")
	user := belljar.Caller{ID: "ann"}
	if err := rules.Network(user, presetsOf("pip", "npm"), presetsOf("npm")); err != nil {
		t.Error(err)
	}
	if err := rules.Network(user, presetsOf("pip"), presetsOf("pip", "npm")); belljar.CodeOf(err) != belljar.CodePolicyDenied {
		t.Errorf("one more: %v", err)
	}
}

var errDialled = errors.New("dialled")

func nobody(context.Context, netip.AddrPort) (net.Conn, error) { return nil, errDialled }

// A runtime that cannot show packages is refused with the reason that it gives.
func TestNoPackages(t *testing.T) {
	caps := runtime.Capabilities{Relay: true, NoLayers: runtime.Reason{Detail: "SELinux hides them"}}
	if why := noPackages(caps); why == nil || !strings.Contains(why.Detail, "SELinux hides them") || why.Hint == "" {
		t.Errorf("%+v", why)
	}
	if why := noPackages(runtime.Capabilities{Relay: true, Layers: true}); why != nil {
		t.Errorf("%+v", why)
	}
}
