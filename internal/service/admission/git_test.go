package admission

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service/placement"
)

// at is a resolver with the same address for every name.
type at string

func (a at) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr(string(a))}, nil
}

// gitRules returns the rules of a server that permits the listed destinations and these images; without images, every image.
func gitRules(t *testing.T, private bool, allowed []string, images ...string) *Rules {
	t.Helper()
	p := DefaultPolicy()
	p.EgressAllow, p.EgressPrivate, p.AllowedImages = allowed, private, images
	reach, err := p.Egress()
	if err != nil {
		t.Fatal(err)
	}
	return &Rules{Policy: p, Egress: reach}
}

// gitPlace returns the placement of a sandbox with a repository.
func gitPlace(t *testing.T, relay, host bool) *placement.Placement {
	rt := fake.New(fake.Options{Dir: t.TempDir()})
	t.Cleanup(func() { rt.Close() })
	return &placement.Placement{
		Host: placement.NewHost(rt), Caps: runtime.Capabilities{Available: true, Relay: relay, HostImage: host}, Image: runtime.Root{Ref: "app:1", GoCache: "/x"},
		Fetch: "app:1", Exec: true, CompilerMB: 900, Limits: belljar.DefaultLimits(),
	}
}

// A clone reaches only the repository's host, from a sandbox within the reservation of the other.
func TestPlaceGit(t *testing.T) {
	spec, ann := &belljar.GitSpec{URL: "https://git.example.com/app.git"}, belljar.Caller{ID: "ann"}
	place := func(r *Rules, host bool, network belljar.NetworkSpec) *placement.Placement {
		t.Helper()
		side, err := r.PlaceGit(t.Context(), ann, gitPlace(t, true, host), Request{Network: network}, spec)
		if err != nil {
			t.Fatal(err)
		}
		return side
	}
	check := func(side *placement.Placement, address string, want egress.Reason) {
		t.Helper()
		got := egress.Check(t.Context(), *side.Egress, nil, at(address), spec.URL)
		if got.Reason != string(want) || got.Allowed != (want == "") {
			t.Errorf("at %s: %+v, want %q", address, got, want)
		}
	}
	r := gitRules(t, true, []string{"git.example.com", "*.example.org", "10.1.2.3"})
	side := place(r, true, belljar.NetworkSpec{})
	if side.Image.Ref != runtime.HostRef || side.Image.GoCache != "" || side.Fetch != "" || side.Exec || side.CompilerMB != 0 || side.Limits != belljar.DefaultLimits() {
		t.Errorf("%+v", side)
	}
	for host, want := range map[string]egress.Reason{"git.example.com": "", "a.example.org": egress.NoMatch, "10.1.2.3": egress.NoMatch} {
		if _, reason := side.Egress.Decide(host, 443); reason != want {
			t.Errorf("%s: %q, want %q", host, reason, want)
		}
	}
	check(side, "93.184.215.14", "")
	check(side, "10.1.2.3", "")
	check(side, "10.1.2.4", egress.PrivateAddress)
	check(side, "169.254.169.254", egress.PrivateAddress)
	check(place(gitRules(t, false, []string{"git.example.com", "10.1.2.3"}), true, belljar.NetworkSpec{}), "10.1.2.3", egress.PrivateAddress)
	everything := gitRules(t, true, []string{"*"})
	check(place(everything, true, belljar.NetworkSpec{}), "10.1.2.3", egress.PrivateAddress)
	check(place(everything, true, allowlist("10.1.2.3", "other.example.com")), "10.1.2.3", "")
	narrowed := place(gitRules(t, true, []string{"git.example.com", "10.1.0.0/16"}), true, allowlist("10.7.7.7"))
	check(narrowed, "10.1.2.3", "") // an address of the request takes no address of the operator away
	check(narrowed, "10.7.7.7", egress.PrivateAddress)

	if side := place(r, false, belljar.NetworkSpec{}); side.Image.Ref != "app:1" || side.Fetch != "app:1" || side.Image.GoCache != "" {
		t.Errorf("without the host's image: %+v", side.Image)
	}
	if side := place(gitRules(t, true, []string{"*"}, "app:*"), true, belljar.NetworkSpec{}); side.Image.Ref != "app:1" {
		t.Errorf("where the host's image is not allowed: %+v", side.Image)
	}
	if none, err := r.PlaceGit(t.Context(), ann, gitPlace(t, false, true), Request{}, nil); none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
}

func TestPlaceGitRefuses(t *testing.T) {
	const url = "https://git.example.com/app.git"
	for name, tt := range map[string]struct {
		rules *Rules
		relay bool
		url   string
		code  belljar.Code
		field string
		rule  any
	}{
		"no network":      {gitRules(t, false, nil), true, url, belljar.CodePolicyDenied, "git.url", "SANDBOX_EGRESS_ALLOW"},
		"another host":    {gitRules(t, false, []string{"example.com"}), true, url, belljar.CodePolicyDenied, "git.url", "SANDBOX_EGRESS_ALLOW"},
		"another port":    {gitRules(t, false, []string{"*"}), true, "https://git.example.com:8443/a", belljar.CodePolicyDenied, "git.url", "SANDBOX_EGRESS_PORTS"},
		"no relay":        {gitRules(t, false, []string{"*"}), false, url, belljar.CodeRuntimeUnavailable, "git", nil},
		"not a host":      {gitRules(t, false, []string{"*"}), true, "https://exa_mple/a", belljar.CodeInvalidRequest, "git.url", nil},
		"an odd address":  {gitRules(t, false, []string{"*"}), true, "https://0x7f000001/a", belljar.CodeInvalidRequest, "git.url", nil},
		"not even a name": {gitRules(t, false, []string{"*"}), true, "https://b\u00fccher.example/a", belljar.CodeInvalidRequest, "git.url", nil},
	} {
		_, err := tt.rules.PlaceGit(t.Context(), belljar.Caller{}, gitPlace(t, tt.relay, true), Request{}, &belljar.GitSpec{URL: tt.url})
		var e *belljar.Error
		if !errors.As(err, &e) || e.Code != tt.code || e.Details["field"] != tt.field || e.Details["rule"] != tt.rule || e.Hint == "" {
			t.Errorf("%s: %+v", name, err)
			if e != nil {
				t.Logf("%v %q", e.Details, e.Hint)
			}
		}
	}
}
