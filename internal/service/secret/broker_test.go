package secret

import (
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	vault "github.com/belljar/belljar/internal/secret"
	"github.com/belljar/belljar/internal/service/placement"
)

func rules(t *testing.T, list ...string) egress.Rules {
	t.Helper()
	r, err := egress.ParseList("SANDBOX_EGRESS_ALLOW", list)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestBrokerReach: a secret goes to a host only if request, server and ports permit it.
func TestBrokerReach(t *testing.T) {
	s := &Secrets{Now: time.Now}
	secrets := map[string]belljar.Secret{"TOKEN": {Value: "s3cr3t-token", Host: "api.example.com"}}
	some := rules(t, "*.example.com")
	for _, tt := range []struct {
		name   string
		policy *egress.Policy
		code   belljar.Code // "" for none
		hint   string
	}{
		{"allowed", &egress.Policy{Run: some, Server: egress.Any(), Ports: []uint16{443}}, "", ""},
		{"no network", nil, belljar.CodeInvalidRequest, "--allow api.example.com"},
		{"not in the request", &egress.Policy{Run: rules(t, "example.org"), Server: egress.Any(), Ports: []uint16{443}}, belljar.CodeInvalidRequest, "--allow api.example.com"},
		{"not on the server", &egress.Policy{Run: some, Server: rules(t, "example.org"), Ports: []uint16{443}}, belljar.CodePolicyDenied, "SANDBOX_EGRESS_ALLOW"},
		{"no port", &egress.Policy{Run: some, Server: egress.Any(), Ports: []uint16{80}}, belljar.CodePolicyDenied, "SANDBOX_EGRESS_PORTS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := s.Broker(&placement.Placement{Egress: tt.policy}, secrets, nil)
			if tt.code == "" {
				if err != nil || b == nil {
					t.Fatal(b, err)
				}
				return
			}
			var e *belljar.Error
			if !errors.As(err, &e) || e.Code != tt.code || e.Details["field"] != "secrets.TOKEN.host" || !strings.Contains(e.Hint, tt.hint) {
				t.Errorf("%v, hint %q", err, belljar.HintOf(err))
			}
		})
	}
	if b, err := s.Broker(&placement.Placement{}, map[string]belljar.Secret{"FILE": {Value: "s3cr3t-token"}}, nil); b != nil || err != nil {
		t.Errorf("without brokered secrets: %v, %v", b, err)
	}
	// The value of a stored secret is known only now.
	secrets["TOKEN"] = belljar.Secret{Value: "two\nlines of it", Host: "api.example.com"}
	if _, err := s.Broker(&placement.Placement{Egress: &egress.Policy{Run: some, Server: egress.Any(), Ports: []uint16{443}}}, secrets, nil); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Errorf("a value of two lines: %v", err)
	}
}

// TestBrokerKept: a sandbox's authority and placeholders are the same after a restart, and the record does not reveal a value.
func TestBrokerKept(t *testing.T) {
	s := &Secrets{Now: time.Now, Vault: vault.Temporary()}
	secrets := map[string]belljar.Secret{
		"TOKEN": {Value: "s3cr3t-token", Host: "api.example.com"}, "PASSWORD": {Value: "p4ssw0rd-long", Host: "git.example.com", Template: "Basic me:{}"},
		"FILE": {Value: "contents of a file"},
	}
	p := &egress.Policy{Run: rules(t, "*.example.com"), Server: egress.Any(), Ports: []uint16{443}}
	b, err := s.Broker(&placement.Placement{Egress: p}, secrets, nil)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := s.Seal("run", secrets, b)
	if err != nil || strings.Contains(string(sealed), "s3cr3t") || strings.Contains(string(sealed), "KEY") {
		t.Fatalf("%v: %q", err, sealed)
	}
	got, again, err := s.Open("run", sealed)
	if err != nil || len(got) != 3 || got["FILE"].Value != "contents of a file" {
		t.Fatalf("%v, %d secrets", err, len(got))
	}
	if len(again.Placeholders) != 2 || again.Placeholders["TOKEN"] != b.Placeholders["TOKEN"] || again.Placeholders["TOKEN"] == again.Placeholders["PASSWORD"] {
		t.Errorf("placeholders %v, then %v", b.Placeholders, again.Placeholders)
	}
	if len(again.Egress.Credentials) != 2 || again.Egress.Credentials[0].Value != "Basic bWU6cDRzc3cwcmQtbG9uZw==" || again.Egress.Credentials[1].Value != "Bearer s3cr3t-token" {
		t.Error("other credentials")
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(again.Egress.Authority.PEM()) || string(again.Egress.Authority.PEM()) != string(b.Egress.Authority.PEM()) {
		t.Error("another authority")
	}
	for _, text := range []string{"s3cr3t-token", "p4ssw0rd-long", "bWU6cDRzc3cwcmQtbG9uZw"} {
		if out := string(again.Egress.Hidden.Stream().Write([]byte(text))); strings.Trim(out, "*") != "" {
			t.Errorf("%s is shown as %s", text, out)
		}
	}
}

// TestBrokerGit: the secret of a repository is in the sandbox of the clone, and does not depend on the run's network.
func TestBrokerGit(t *testing.T) {
	s := &Secrets{Now: time.Now, Roots: x509.NewCertPool()}
	g := &belljar.GitSpec{URL: "https://git.example.com/a.git", Secret: "TOKEN"}
	secrets := map[string]belljar.Secret{"TOKEN": {Value: "s3cr3t-token"}, "OTHER": {Value: "another-secret", Host: "git.example.com", Header: "X-Other"}}
	var side placement.Placement
	if err := s.BrokerGit(&side, g, secrets); err != nil {
		t.Fatal(err)
	}
	got := side.Broker.Egress
	if len(got.Credentials) != 1 || got.Credentials[0] != (egress.Credential{Host: "git.example.com", Header: "Authorization", Value: "Basic eC1hY2Nlc3MtdG9rZW46czNjcjN0LXRva2Vu"}) || got.Roots != s.Roots {
		t.Errorf("%d credentials", len(got.Credentials))
	}
	if text := got.Conceal("a s3cr3t-token eC1hY2Nlc3MtdG9rZW46czNjcjN0LXRva2Vu"); strings.Trim(text, "* ") != "a" {
		t.Error(text)
	}
	for name, none := range map[string]*belljar.GitSpec{"no repository": nil, "no secret": {URL: g.URL}} {
		if err := s.BrokerGit(nil, none, secrets); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The value of a stored secret is known only now.
	if err := s.BrokerGit(&side, g, map[string]belljar.Secret{"TOKEN": {Value: "two\nlines of it"}}); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Errorf("a value of two lines: %v", err)
	}
	delete(secrets, "OTHER")
	secrets["TOKEN"] = belljar.Secret{Value: "s3cr3t-token", Host: "git.example.com"}
	if b, err := s.Broker(&placement.Placement{}, secrets, g); err != nil || b == nil {
		t.Errorf("a run without a network: %v", err)
	}
	if _, err := s.Broker(&placement.Placement{}, secrets, &belljar.GitSpec{URL: g.URL}); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Errorf("a secret that the clone does not use: %v", err)
	}
}
