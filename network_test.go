package belljar_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/belljar/belljar"
)

func TestParseEgress(t *testing.T) {
	rules := []string{"api.example.com", "*.example.org", "203.0.113.0/24", "10.0.0.0/99", "203.0.113.7", "2001:db8::7", "https://x/y", "127.0.0.1:80"}
	got := belljar.ParseEgress(rules)
	want := belljar.Egress{
		Hosts: []string{"api.example.com", "*.example.org", "https://x/y", "127.0.0.1:80"}, // the last two are invalid hosts
		CIDRs: []string{"203.0.113.0/24", "10.0.0.0/99"}, IPs: []string{"203.0.113.7", "2001:db8::7"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if again := belljar.ParseEgress(got.List()); !reflect.DeepEqual(again, want) || got.Len() != len(rules) || got.IsZero() {
		t.Errorf("%+v, %d rules", again, got.Len())
	}
}

func TestNetworkValidate(t *testing.T) {
	some, many := belljar.Egress{IPs: []string{"203.0.113.7"}}, belljar.Egress{Hosts: make([]string, 1001)}
	for _, test := range []struct {
		spec  belljar.NetworkSpec
		field string // "" for a valid one
		code  belljar.Code
	}{
		{spec: belljar.NetworkSpec{}},
		{spec: belljar.NetworkSpec{NetworkPolicy: "deny_all"}},
		{spec: belljar.NetworkSpec{NetworkPolicy: "allowlist"}}, // an empty list permits nothing
		{spec: belljar.NetworkSpec{NetworkPolicy: "allowlist", Egress: some}},
		{belljar.NetworkSpec{Egress: some}, "egress", belljar.CodeInvalidRequest},
		{belljar.NetworkSpec{NetworkPolicy: "deny_all", Egress: some}, "egress", belljar.CodeInvalidRequest},
		{belljar.NetworkSpec{NetworkPolicy: "allowlist", Egress: many}, "egress", belljar.CodeInvalidRequest},
		{spec: belljar.NetworkSpec{NetworkPolicy: "allowlist", Egress: belljar.Egress{Presets: belljar.EgressPresets()}}},
		{belljar.NetworkSpec{NetworkPolicy: "allowlist", Egress: belljar.Egress{Presets: []string{"pip", "gem"}}}, "egress.presets[1]", belljar.CodeInvalidRequest},
		{belljar.NetworkSpec{NetworkPolicy: "allowlist", Egress: belljar.Egress{Presets: []string{"pip", "pip"}}}, "egress.presets[1]", belljar.CodeInvalidRequest},
		{belljar.NetworkSpec{Egress: belljar.Egress{Presets: []string{"pip"}}}, "egress", belljar.CodeInvalidRequest},
		{belljar.NetworkSpec{NetworkPolicy: "bridge"}, "network_policy", belljar.CodePolicyDenied},
	} {
		err := test.spec.Validate()
		var e *belljar.Error
		switch {
		case test.field == "" && err != nil:
			t.Errorf("%.80v: %v", test.spec, err)
		case test.field != "" && (!errors.As(err, &e) || e.Code != test.code || e.Details["field"] != test.field):
			t.Errorf("%.80v: %v", test.spec, err)
		}
	}
	run := belljar.RunSpec{SpecVersion: "1.0", BaseImage: "host", Command: []string{"true"}, Egress: some}
	session := belljar.SessionSpec{BaseImage: "host", Egress: some}
	if belljar.CodeOf(run.Validate()) != belljar.CodeInvalidRequest || belljar.CodeOf(session.Validate()) != belljar.CodeInvalidRequest {
		t.Error("egress without its policy passes")
	}
	for _, q := range []belljar.NetworkQuery{{}, {URL: "x", SessionID: "y", NetworkPolicy: "allowlist"}, {URL: "x", Egress: some}} {
		if belljar.CodeOf(q.Validate()) != belljar.CodeInvalidRequest {
			t.Errorf("%+v passes", q)
		}
	}
}
