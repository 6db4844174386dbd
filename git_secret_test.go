package belljar

import (
	"strings"
	"testing"
)

func TestGitSecretOf(t *testing.T) {
	const value = "s3cr3t-value"
	for name, tt := range map[string]struct {
		url, name string
		secret    Secret
		field     string
		header    string
	}{
		"none":          {"https://git.example.com/a", "", Secret{Value: value}, "", ""},
		"file":          {"https://GIT.example.com/a", "TOKEN", Secret{Value: value}, "", "Authorization: Basic eC1hY2Nlc3MtdG9rZW46czNjcjN0LXZhbHVl"},
		"stored":        {"https://git.example.com/a", "TOKEN", Secret{From: "STORED"}, "", "Authorization: Basic eC1hY2Nlc3MtdG9rZW46"},
		"host":          {"https://git.example.com/a", "TOKEN", Secret{Value: value, Host: "git.example.com"}, "", "Authorization: Basic eC1hY2Nlc3MtdG9rZW46czNjcjN0LXZhbHVl"},
		"template":      {"https://git.example.com/a", "TOKEN", Secret{Value: value, Host: "git.example.com", Template: "token {}"}, "", "Authorization: token " + value},
		"header":        {"https://git.example.com/a", "TOKEN", Secret{Value: value, Host: "git.example.com", Header: "Private-Token"}, "", "Private-Token: " + value},
		"other name":    {"https://git.example.com/a", value, Secret{Value: value}, "git.secret", ""},
		"other host":    {"https://git.example.com/a", "TOKEN", Secret{Value: value, Host: "api.example.com"}, "git.secret", ""},
		"port":          {"https://git.example.com:8443/a", "TOKEN", Secret{Value: value}, "git.secret", ""},
		"host with dot": {"https://git.example.com./a", "TOKEN", Secret{Value: value}, "git.secret", ""},
		"two lines":     {"https://git.example.com/a", "TOKEN", Secret{Value: value + "\n" + value}, "git.secret", ""},
		"too long":      {"https://git.example.com/a", "TOKEN", Secret{Value: strings.Repeat("a", 8<<10)}, "git.secret", ""},
	} {
		g, secrets := &GitSpec{URL: tt.url, Secret: tt.name}, map[string]Secret{"TOKEN": tt.secret}
		run := RunSpec{SpecVersion: SpecVersion, BaseImage: "host", Command: []string{"true"}, NetworkPolicy: NetworkDenyAll, Git: g, Secrets: secrets}
		session := SessionSpec{NetworkPolicy: NetworkDenyAll, Git: g, Secrets: secrets}
		if tt.name == "" || tt.secret.Host == "api.example.com" {
			run.NetworkPolicy, session.NetworkPolicy = "", ""
		}
		for _, err := range []error{run.Validate(), session.Validate()} {
			if fieldOf(t, err) != tt.field || err != nil && strings.Contains(err.Error()+HintOf(err), value) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if tt.header == "" {
			continue
		}
		s, err := g.Credential(secrets)
		if err != nil {
			t.Fatal(err)
		}
		if header, value := s.Credential(); header+": "+value != tt.header {
			t.Errorf("%s: %s: %s", name, header, value)
		}
	}
	// A brokered secret that the clone does not use needs the network.
	other := RunSpec{
		SpecVersion: SpecVersion, BaseImage: "host", Command: []string{"true"}, NetworkPolicy: NetworkDenyAll, Git: &GitSpec{URL: "https://git.example.com/a"},
		Secrets: map[string]Secret{"TOKEN": {Value: value, Host: "git.example.com"}},
	}
	if field := fieldOf(t, other.Validate()); field != "secrets.TOKEN.host" {
		t.Errorf("%q", field)
	}
	if _, err := (&GitSpec{URL: "x", Secret: "TOKEN"}).Credential(nil); fieldOf(t, err) != "git.url" {
		t.Error(err)
	}
}
