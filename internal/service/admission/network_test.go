package admission

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service/placement"
)

func allowlist(rules ...string) belljar.NetworkSpec {
	return belljar.NetworkSpec{NetworkPolicy: belljar.NetworkAllowlist, Egress: belljar.ParseEgress(rules)}
}

// A sandbox may reach the destinations in its request that its user's rules and its trust level's rules permit.
func TestEgress(t *testing.T) {
	policy := DefaultPolicy()
	policy.DefaultTrust = belljar.TrustUntrusted
	policy.EgressAllow = []string{"*.example.com", "example.org"}
	policy.EgressAllowUsers = []string{"ann=*", "a=b=api.example.net"}
	policy.EgressAllowTrust = []string{"untrusted=api.example.com", "untrusted=example.org"}
	e, err := policy.Egress()
	if err != nil {
		t.Fatal(err)
	}
	user, ann := belljar.Caller{ID: "ben", Role: belljar.RoleUser}, belljar.Caller{ID: "ann", Role: belljar.RoleUser}
	operator := belljar.Caller{ID: "root", Role: belljar.RoleAdmin}
	all := allowlist("api.example.com", "www.example.com", "example.org", "example.net", "api.example.net")
	for name, test := range map[string]struct {
		caller belljar.Caller
		trust  belljar.TrustLevel
		spec   belljar.NetworkSpec
		want   string
	}{
		"the default level":          {user, "", all, "api.example.com example.org"},
		"a level that is claimed":    {user, belljar.TrustTrusted, all, "api.example.com example.org"}, // the default level's rules apply to users
		"an operator's level":        {operator, belljar.TrustTrusted, all, "api.example.com www.example.com example.org"},
		"a request that lists less":  {operator, belljar.TrustTrusted, allowlist("www.example.com"), "www.example.com"},
		"an empty list":              {operator, belljar.TrustTrusted, allowlist(), ""},
		"a user's own rules":         {ann, "", all, "api.example.com example.org"},
		"those, as the operator":     {belljar.Caller{ID: "ann", Role: belljar.RoleAdmin}, belljar.TrustTrusted, all, "api.example.com www.example.com example.org example.net api.example.net"},
		"a name with an equals sign": {belljar.Caller{ID: "a=b", Role: belljar.RoleAdmin}, belljar.TrustTrusted, all, "api.example.net"},
	} {
		_, p, err := e.Network(test.caller, test.trust, test.spec)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var reached []string
		for _, host := range all.Egress.Hosts {
			if _, reason := p.Decide(host, 443); reason == "" {
				reached = append(reached, host)
			}
		}
		if got := strings.Join(reached, " "); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	for _, spec := range []belljar.NetworkSpec{{}, {NetworkPolicy: belljar.NetworkDenyAll}} {
		if got, p, err := e.Network(user, "", spec); err != nil || p != nil || got.NetworkPolicy != belljar.NetworkDenyAll {
			t.Errorf("%+v: %+v, %v, %v", spec, got, p, err)
		}
	}
	var refused *belljar.Error
	if _, _, err := e.Network(user, "", allowlist("a.example.com", "x_y")); !errors.As(err, &refused) || refused.Details["field"] != "egress.hosts[1]" {
		t.Errorf("a bad rule: %v", err)
	}
}

// By default, requests get everything that the server permits. If it permits nothing, a network is refused.
func TestNetworkDefault(t *testing.T) {
	policy := DefaultPolicy()
	e, err := policy.Egress()
	if err != nil {
		t.Fatal(err)
	}
	var refused *belljar.Error
	if _, _, err := e.Network(belljar.Caller{}, "", allowlist("example.com")); !errors.As(err, &refused) || refused.Code != belljar.CodePolicyDenied ||
		!strings.Contains(refused.Hint, "SANDBOX_EGRESS_ALLOW") {
		t.Errorf("without rules: %v", err)
	}
	p, err := e.Recovered(belljar.Caller{}, "", allowlist("example.com"), nil)
	if err == nil || p == nil || !p.Run.Empty() || !slices.Equal(p.Ports, DefaultEgressPorts()) {
		t.Errorf("a sandbox of a former process: %+v, %v", p, err)
	} else if _, reason := p.Decide("example.com", 443); reason != egress.NoMatch {
		t.Errorf("a sandbox of a former process is denied a host because of %q", reason)
	}
	policy.NetworkDefault, policy.EgressAllow = belljar.NetworkAllowlist, []string{"*"}
	if e, err = policy.Egress(); err != nil {
		t.Fatal(err)
	}
	var spec belljar.NetworkSpec
	if spec, p, err = e.Network(belljar.Caller{}, "", belljar.NetworkSpec{}); err != nil || spec.NetworkPolicy != belljar.NetworkAllowlist || spec.Egress.Hosts[0] != "*" {
		t.Fatalf("%+v, %v", spec, err)
	}
	if _, reason := p.Decide("example.com", 443); reason != "" {
		t.Error(reason)
	}
	if _, reason := p.Decide("example.com", 22); reason != egress.PortDenied {
		t.Errorf("port 22: %q", reason)
	}
	if _, p, err := e.Network(belljar.Caller{}, "", belljar.NetworkSpec{NetworkPolicy: belljar.NetworkDenyAll}); p != nil || err != nil {
		t.Errorf("deny_all: %v, %v", p, err)
	}
	for name, change := range map[string]func(*Policy){
		"SANDBOX_EGRESS_ALLOW":       func(p *Policy) { p.EgressAllow = []string{"*.com"} },
		"SANDBOX_EGRESS_ALLOW_USERS": func(p *Policy) { p.EgressAllowUsers = []string{"ann=https://x"} },
		"SANDBOX_EGRESS_ALLOW_TRUST": func(p *Policy) { p.EgressAllowTrust = []string{"trusted=10.0.0.1/8"} },
	} {
		bad := DefaultPolicy()
		change(&bad)
		if _, err := bad.Egress(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Only values that differ from the default are part of the hash.
func TestEgressInTheHash(t *testing.T) {
	usual := DefaultPolicy().Effective(Effect{}).Hash()
	for name, test := range map[string]struct {
		change func(*Policy)
		same   bool
	}{
		"the usual ports": {func(p *Policy) { p.EgressPorts = []uint16{80, 443} }, true},
		"other ports":     {func(p *Policy) { p.EgressPorts = []uint16{443} }, false},
		"hosts":           {func(p *Policy) { p.EgressAllow = []string{"*"} }, false},
		"users":           {func(p *Policy) { p.EgressAllowUsers = []string{"ann=*"} }, false},
		"levels":          {func(p *Policy) { p.EgressAllowTrust = []string{"trusted=*"} }, false},
		"private":         {func(p *Policy) { p.EgressPrivate = true }, false},
	} {
		p := DefaultPolicy()
		test.change(&p)
		if same := p.Effective(Effect{}).Hash() == usual; same != test.same {
			t.Errorf("%s: the same is %v", name, same)
		}
	}
}

// A runtime without a relay is refused by name.
func TestRelayed(t *testing.T) {
	rt := fake.New(fake.Options{Dir: t.TempDir()})
	defer rt.Close()
	p := &placement.Placement{Host: placement.NewHost(rt), Caps: runtime.Capabilities{Available: true}}
	var refused *belljar.Error
	if err := Relayed(p); !errors.As(err, &refused) || refused.Code != belljar.CodeRuntimeUnavailable || !strings.Contains(refused.Message, rt.Name()) {
		t.Errorf("%v", err)
	}
	if p.Caps.Relay = true; Relayed(p) != nil {
		t.Error("a runtime with the relay is refused")
	}
}

func TestDenied(t *testing.T) {
	run, err := egress.ParseRules(belljar.Egress{Hosts: []string{"a.example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	p := &egress.Policy{Run: run, Ports: []uint16{443}}
	for _, test := range []struct{ host, reason, want string }{
		{"b.example.com", "no_match", "network: b.example.com is not allowed (no_match): add --allow b.example.com"},
		{"a.example.com", "no_match", "network: a.example.com is not allowed (no_match): the server's SANDBOX_EGRESS_ALLOW does not list it"},
		{"x_y", "no_match", "network: x_y is not allowed (no_match)"},
		{"a.example.com", "port_denied", "network: a.example.com is not allowed (port_denied): the server's SANDBOX_EGRESS_PORTS does not list the port"},
		{"a.example.com", "dns_failed", "network: a.example.com cannot be found (dns_failed): its name has no address, or the DNS server did not answer"},
		{"a.example.com", "sni_missing", "network: a.example.com is not allowed (sni_missing)"},
	} {
		if got := Denied(p, belljar.EgressHost{Host: test.host, Reason: test.reason}, "--allow"); got != test.want {
			t.Errorf("%q", got)
		}
	}
	e, err := Policy{EgressAllow: []string{"*"}, EgressAllowUsers: []string{"ann=*"}, EgressAllowTrust: []string{"untrusted=example.org"}}.Egress()
	if err != nil {
		t.Fatal(err)
	}
	p = e.server(belljar.Caller{ID: "ann"}, belljar.TrustUntrusted)
	p.Run = run
	const lists = "the server's SANDBOX_EGRESS_ALLOW_USERS of ann or SANDBOX_EGRESS_ALLOW_TRUST of untrusted does not list it"
	if got := Uncovered(p); !slices.Equal(got, []string{"network: the rule a.example.com allows nothing: " + lists}) {
		t.Errorf("%q", got)
	}
}
