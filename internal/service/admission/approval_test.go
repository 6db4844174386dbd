package admission

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/placement"
)

func rulesOf(t testing.TB, rules ...string) *ApprovalRules {
	t.Helper()
	a, err := Policy{Approval: rules}.ApprovalRules()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestApprovalReasons(t *testing.T) {
	all := rulesOf(t, "network", "image", "cpu>2", "memory_mb>4096", "timeout_sec>600", "source=mcp")
	user := belljar.Caller{ID: "ann", Role: belljar.RoleUser, Source: "rest"}
	agent := belljar.Caller{ID: "op", Role: belljar.RoleAdmin, Source: "MCP"}
	place := func(image string, l belljar.Limits) *placement.Placement {
		return &placement.Placement{Image: runtime.Root{Ref: image}, Limits: l}
	}
	small := place(runtime.HostRef, belljar.Limits{CPU: 2, MemoryMB: 4096, TimeoutSec: 600})
	large := place("docker.io/library/python:3.12", belljar.Limits{CPU: 2.5, MemoryMB: 4097, TimeoutSec: 601})
	building := func(sec float64) *placement.Placement {
		return place(runtime.HostRef, belljar.Limits{TimeoutSec: 60, BuildTimeoutSec: sec})
	}
	run, inside, compiled := &belljar.RunSpec{}, &belljar.RunSpec{SessionID: "s"}, &belljar.RunSpec{Language: "c"}
	for name, test := range map[string]struct {
		rules *ApprovalRules
		q     Question
		want  []string
	}{
		"nothing asks":       {rulesOf(t), Question{Caller: user, Run: run, Placement: large, Network: allowlist("example.com")}, nil},
		"no rules at all":    {nil, Question{Caller: user, Run: run, Placement: large}, nil},
		"at the bounds":      {all, Question{Caller: user, Run: run, Placement: small}, nil},
		"above them":         {all, Question{Caller: user, Run: run, Placement: large}, []string{"image: docker.io/library/python:3.12", "cpu>2: 2.5", "memory_mb>4096: 4097", "timeout_sec>600: 601"}},
		"a session":          {all, Question{Caller: user, Session: &belljar.SessionSpec{}, Placement: small, Network: allowlist("b.example", "10.0.0.0/8")}, []string{"network: b.example 10.0.0.0/8"}},
		"a preset":           {all, Question{Caller: user, Session: &belljar.SessionSpec{}, Placement: small, Network: belljar.NetworkSpec{NetworkPolicy: belljar.NetworkAllowlist, Egress: belljar.Egress{Presets: []string{"pip"}}}}, []string{"network: preset:pip"}},
		"an empty list":      {all, Question{Caller: user, Run: run, Placement: small, Network: allowlist()}, []string{"network: no host"}},
		"in a session":       {all, Question{Caller: user, Run: inside, Placement: large, Network: allowlist("b.example"), SessionTimeout: 601}, nil},
		"longer than it":     {all, Question{Caller: user, Run: inside, Placement: large, SessionTimeout: 600}, []string{"timeout_sec>600: 601"}},
		"a long build":       {all, Question{Caller: user, Run: compiled, Placement: building(601)}, []string{"timeout_sec>600: 601"}},
		"a build as long":    {all, Question{Caller: user, Run: compiled, Placement: building(600)}, nil},
		"no build":           {all, Question{Caller: user, Run: &belljar.RunSpec{Language: "python"}, Placement: building(601)}, nil},
		"a build inside":     {all, Question{Caller: user, Run: &belljar.RunSpec{SessionID: "s", Language: "go"}, Placement: building(700), SessionTimeout: 601}, []string{"timeout_sec>600: 700"}},
		"a session of them":  {all, Question{Caller: user, Session: &belljar.SessionSpec{}, Placement: building(601)}, nil},
		"an operator":        {all, Question{Caller: belljar.Caller{ID: "op", Role: belljar.RoleAdmin}, Run: run, Placement: large}, nil},
		"an operator's tool": {all, Question{Caller: agent, Run: inside, Placement: large}, []string{"source=mcp"}},
		"that image":         {rulesOf(t, "image=python:*"), Question{Caller: user, Run: run, Placement: large}, []string{"image=python:*"}},
		"what it brings": {rulesOf(t, "secrets", "git", "packages"), Question{Caller: user, Placement: small, Run: &belljar.RunSpec{
			Secrets: map[string]belljar.Secret{
				"A": {Value: "a"}, "B": {From: "PROD", Value: "b"}, "C": {From: "PROD", Host: "api.example.com"}, "D": {Value: "d", Host: "git.example.com"},
			},
			Git:      &belljar.GitSpec{URL: "https://git.example.com/x", Ref: "main", Patch: "12345", Secret: "D"},
			Packages: belljar.Packages{Pip: []string{"a"}, Npm: []string{"b@1"}, Build: true},
		}}, []string{
			"secrets: A B (from PROD) C (from PROD, to api.example.com) D (to git.example.com, for git)",
			"git: https://git.example.com/x at main with a patch of 5 bytes", "packages: a b@1 (with build scripts)",
		}},
		"bare": {rulesOf(t, "secrets", "git", "packages"), Question{Caller: user, Placement: small, Session: &belljar.SessionSpec{
			Git: &belljar.GitSpec{URL: "https://git.example.com/x"}, Packages: belljar.Packages{Pip: []string{"a"}},
		}}, []string{"git: https://git.example.com/x", "packages: a"}},
		"another image": {rulesOf(t, "image=node:*", "image=host"), Question{Caller: user, Run: run, Placement: large}, nil},
	} {
		if got := test.rules.Reasons(test.q); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// named is a set of local images, by digest.
type named struct {
	Images
	names map[string][]string
}

func (n named) Get(_ context.Context, ref string) (belljar.Image, error) {
	_, digest, _ := strings.Cut(ref, "sha256:")
	if names, ok := n.names[digest]; ok {
		return belljar.Image{Names: names}, nil
	}
	return belljar.Image{}, &belljar.Error{Code: belljar.CodeImageUnavailable}
}

// A digest instead of a name, or in addition to it, bypasses no rule about an image.
func TestApprovalOfADigest(t *testing.T) {
	here, other, untagged := strings.Repeat("a", 64), strings.Repeat("b", 64), strings.Repeat("c", 64)
	nothing, err := Policy{}.Egress()
	if err != nil {
		t.Fatal(err)
	}
	for rule, images := range map[string]map[string]bool{
		"image=python:3.12": {
			"python:3.12": true, "python:3.11": false, "python:3.12@sha256:" + here: true, "python@sha256:" + here: true, "sha256:" + here: true,
			"python:3.12@sha256:" + other: true, "python@sha256:" + other: true, "sha256:" + other: true, "node@sha256:" + other: false,
			"node@sha256:" + here: true, "sha256:" + untagged: true, "python@sha256:" + untagged: true,
		},
		"image=python:*":                  {"sha256:" + here: true, "sha256:" + other: true, "node@sha256:" + other: false},
		"image=node:*":                    {"sha256:" + here: false, "python@sha256:" + here: false, "sha256:" + other: true, "sha256:" + untagged: false},
		"image=node@sha256:" + here:       {"node@sha256:" + here: true, "node@sha256:" + other: false},
		"image=sha256:" + here:            {"sha256:" + here: true, "sha256:" + other: false},
		"image=" + runtime.HostRef:        {"sha256:" + here: false, "sha256:" + other: false, "python:3.12": false},
		"image=docker.io/library/python*": {"python@sha256:" + other: true},
	} {
		r := &Rules{Egress: nothing, Approvals: rulesOf(t, rule), Images: named{names: map[string][]string{
			here: {"docker.io/library/python:3.12"}, untagged: {"docker.io/library/python@sha256:" + untagged},
		}}}
		for image, asks := range images {
			a, err := r.Approval(Question{
				Caller: belljar.Caller{ID: "ann"}, Run: &belljar.RunSpec{}, Placement: &placement.Placement{Image: runtime.Root{Ref: image}},
			})
			if err != nil || (a != nil) != asks {
				t.Errorf("%s, %s: %v, %v", rule, image, a, err)
			}
		}
	}
}

func TestApprovalRulesRefused(t *testing.T) {
	for rule, words := range map[string]string{
		"disk>3": "nothing that is known", "": "nothing that is known", "Network": "nothing that is known", ">3": "nothing that is known",
		"cpu": "the form of cpu>N", "cpu=2": "the form of cpu>N", "cpu>": "a number", "cpu>many": "a number", "cpu>-1": "a number", "cpu>NaN": "a number", "cpu>Inf": "a number",
		"network=x": "the form of network", "network>1": "the form of network", "source": "the form of source=VALUE", "source=": "a value", "image>1": "the form of image or image=VALUE",
	} {
		_, err := Policy{Approval: []string{"network", rule}}.ApprovalRules()
		var e *belljar.Error
		if !errors.As(err, &e) || e.Code != belljar.CodeInvalidRequest || e.Details["field"] != "SANDBOX_APPROVAL" || !strings.Contains(e.Message, words) ||
			!strings.Contains(e.Hint, "cpu>N") {
			t.Errorf("%q: %v", rule, err)
		}
	}
	if (Policy{Approval: []string{"network"}}).Hash() == (Policy{}).Hash() {
		t.Error("the rules are not in the policy hash")
	}
}

// A session cannot get later what would have needed an approval when it was opened.
func TestApprovalOfAWiderNetwork(t *testing.T) {
	user, operator := belljar.Caller{ID: "ann", Role: belljar.RoleUser}, belljar.Caller{ID: "op", Role: belljar.RoleAdmin}
	none, had := belljar.NetworkSpec{NetworkPolicy: belljar.NetworkDenyAll}, allowlist("a.example", "b.example", "10.0.0.0/8")
	below := allowlist("*.c.example")
	gated := rulesOf(t, "cpu>2", "network")
	for name, test := range map[string]struct {
		rules         *ApprovalRules
		caller        belljar.Caller
		before, asked belljar.NetworkSpec
		refused       bool
	}{
		"narrower":            {gated, user, had, allowlist("b.example"), false},
		"the same":            {gated, user, had, had, false},
		"nothing":             {gated, user, had, none, false},
		"a name of many":      {gated, user, below, allowlist("x.c.example"), false},
		"some names of many":  {gated, user, below, allowlist("*.x.c.example"), false},
		"one name of all":     {gated, user, allowlist("*"), allowlist("a.example"), false},
		"the name above":      {gated, user, below, allowlist("c.example"), true},
		"more names":          {gated, user, below, allowlist("*.example"), true},
		"a name that ends so": {gated, user, below, allowlist("xc.example"), true},
		"part of a network":   {gated, user, allowlist("0.0.0.0/0"), allowlist("10.0.0.0/8"), true}, // a wider rule does not open it
		"an address of many":  {gated, user, allowlist("*"), allowlist("10.0.0.7"), true},
		"another host":        {gated, user, had, allowlist("b.example", "c.example"), true},
		"another network":     {gated, user, had, allowlist("11.0.0.0/8"), true},
		"from nothing":        {gated, user, none, allowlist("a.example"), true},
		"from nothing, []":    {gated, user, none, allowlist(), true},
		"an operator":         {gated, operator, none, had, false},
		"no such rule":        {rulesOf(t, "cpu>2"), user, none, had, false},
	} {
		err := test.rules.Network(test.caller, test.before, test.asked)
		if test.refused != (belljar.CodeOf(err) == belljar.CodePolicyDenied) || err != nil && belljar.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A request's fingerprint is the same after a restart, and differs from that of any other request.
func TestFingerprint(t *testing.T) {
	spec := belljar.RunSpec{Command: []string{"a"}, Env: map[string]string{}, Egress: belljar.Egress{Hosts: []string{}}, Files: []belljar.InlineFile{{Path: "x", Content: []byte{}}}}
	same := belljar.RunSpec{Command: []string{"a"}, Files: []belljar.InlineFile{{Path: "x", Content: []byte{}}}}
	other := belljar.RunSpec{Command: []string{"b"}}
	a, err := Fingerprint(&spec)
	b, err2 := Fingerprint(&same)
	c, err3 := Fingerprint(&other)
	if err := errors.Join(err, err2, err3); err != nil || a != b || a == c {
		t.Errorf("%s, %s, %s, %v", a, b, c, err)
	}
}

// TestFingerprintOfSecrets checks that it covers which secrets go where, and nothing of their values.
func TestFingerprintOfSecrets(t *testing.T) {
	of := func(s belljar.Secret) string {
		text, err := Fingerprint(&belljar.RunSpec{Secrets: map[string]belljar.Secret{"TOKEN": s}})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	usual := of(belljar.Secret{From: "PROD", Host: "a.example.com"})
	if usual != of(belljar.Secret{From: "PROD", Host: "a.example.com", Value: "known since"}) {
		t.Error("it depends on a value")
	}
	for name, s := range map[string]belljar.Secret{
		"another one": {From: "TEST", Host: "a.example.com"}, "another host": {From: "PROD", Host: "b.example.com"}, "a file": {From: "PROD"}, "the caller's own": {Host: "a.example.com", Value: "x"},
		"another header": {From: "PROD", Host: "a.example.com", Header: "X-Token"},
	} {
		if of(s) == usual {
			t.Errorf("%s is the same request", name)
		}
	}
}

func FuzzApprovalRule(f *testing.F) {
	for _, rule := range []string{"network", "cpu>2", "image=python:*", "source=mcp", "cpu>1e309", "image=a@sha256:b", ">=", "cpu>>2"} {
		f.Add(rule)
	}
	q := Question{Caller: belljar.Caller{ID: "ann", Source: "mcp"}, Run: &belljar.RunSpec{}, Network: allowlist("example.com"),
		Placement: &placement.Placement{Image: runtime.Root{Ref: "python"}, Limits: belljar.Limits{CPU: 1, MemoryMB: 1, TimeoutSec: 1}}}
	f.Fuzz(func(t *testing.T, rule string) {
		a, err := Policy{Approval: []string{rule}}.ApprovalRules()
		if err != nil {
			return
		}
		for _, reason := range a.Reasons(q) {
			if !strings.HasPrefix(reason, rule) {
				t.Errorf("rule %q, reason %q", rule, reason)
			}
		}
	})
}
