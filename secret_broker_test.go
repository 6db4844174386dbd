package belljar

import (
	"errors"
	"strings"
	"testing"
)

func TestCredential(t *testing.T) {
	for _, tt := range []struct {
		secret        Secret
		header, value string
	}{
		{Secret{Value: "s3cr3t-token\n", Host: "api.example.com"}, "Authorization", "Bearer s3cr3t-token"},
		{Secret{Value: "s3cr3t-token", Host: "api.example.com", Header: "x-api-key"}, "x-api-key", "s3cr3t-token"},
		{Secret{Value: "s3cr3t-token", Host: "api.example.com", Header: "authorization", Template: "token {}"}, "authorization", "token s3cr3t-token"},
		{Secret{Value: "s3cr3t-token", Host: "api.example.com", Template: "Basic me:{}"}, "Authorization", "Basic bWU6czNjcjN0LXRva2Vu"},
	} {
		if header, value := tt.secret.Credential(); header != tt.header || value != tt.value {
			t.Errorf("%s: %s", header, value)
		}
	}
}

func TestBrokeredSecrets(t *testing.T) {
	good := Secret{Value: "s3cr3t-token", Host: "api.example.com"}
	with := func(change func(*Secret)) map[string]Secret {
		s := good
		change(&s)
		return map[string]Secret{"TOKEN": s}
	}
	for _, tt := range []struct {
		name    string
		secrets map[string]Secret
		env     map[string]string
		network string
		field   string // of the error; "" for none
		hint    string
	}{
		{name: "good", secrets: map[string]Secret{"TOKEN": good}, network: NetworkAllowlist},
		{name: "the server's network", secrets: map[string]Secret{"TOKEN": good}},
		{name: "stored", secrets: with(func(s *Secret) { s.Value, s.From = "", "stored" })},
		{name: "header without host", secrets: with(func(s *Secret) { s.Host, s.Header = "", "X-Key" }), field: "secrets.TOKEN.header", hint: "name the host"},
		{name: "template without host", secrets: with(func(s *Secret) { s.Host, s.Template = "", "{}" }), field: "secrets.TOKEN.template", hint: "name the host"},
		{name: "wildcard", secrets: with(func(s *Secret) { s.Host = "*.example.com" }), field: "secrets.TOKEN.host", hint: "without a wildcard"},
		{name: "scheme", secrets: with(func(s *Secret) { s.Host = "http://api.example.com/v1" }), field: "secrets.TOKEN.host", hint: "the name alone"},
		{name: "port", secrets: with(func(s *Secret) { s.Host = "api.example.com:8443" }), field: "secrets.TOKEN.host", hint: ": api.example.com"},
		{name: "upper case", secrets: with(func(s *Secret) { s.Host = "API.example.com." }), field: "secrets.TOKEN.host", hint: "lower case and without a full stop"},
		{name: "address", secrets: with(func(s *Secret) { s.Host = "203.0.113.7" }), field: "secrets.TOKEN.host", hint: "such as api.example.com"},
		{name: "long label", secrets: with(func(s *Secret) { s.Host = strings.Repeat("a", 64) + ".com" }), field: "secrets.TOKEN.host"},
		{name: "no header name", secrets: with(func(s *Secret) { s.Header = "X Key" }), field: "secrets.TOKEN.header"},
		{name: "two headers", secrets: with(func(s *Secret) { s.Header = "X-Key: a\r\nX-Other" }), field: "secrets.TOKEN.header"},
		{name: "Host", secrets: with(func(s *Secret) { s.Header = "host" }), field: "secrets.TOKEN.header", hint: "credentials"},
		{name: "Content-Length", secrets: with(func(s *Secret) { s.Header = "Content-Length" }), field: "secrets.TOKEN.header"},
		{name: "Content_Length", secrets: with(func(s *Secret) { s.Header = "Content_Length" }), field: "secrets.TOKEN.header"},
		{name: "Proxy-Authorization", secrets: with(func(s *Secret) { s.Header = "Proxy-Authorization" }), field: "secrets.TOKEN.header"},
		{name: "no value in the template", secrets: with(func(s *Secret) { s.Template = "Bearer" }), field: "secrets.TOKEN.template", hint: "{}"},
		{name: "two values in the template", secrets: with(func(s *Secret) { s.Template = "{} {}" }), field: "secrets.TOKEN.template", hint: "{}"},
		{name: "two lines", secrets: with(func(s *Secret) { s.Template = "{}\r\nX: y" }), field: "secrets.TOKEN.template", hint: "one line"},
		{name: "Basic without a user", secrets: with(func(s *Secret) { s.Template = "Basic {}" }), field: "secrets.TOKEN.template", hint: "Basic user:{}"},
		{name: "a value of two lines", secrets: with(func(s *Secret) { s.Value = "s3cr3t\r\nX-Evil: 1" }), field: "secrets.TOKEN.value", hint: "one line"},
		{name: "a long value", secrets: with(func(s *Secret) { s.Value = strings.Repeat("x", 9000) }), field: "secrets.TOKEN.value"},
		{name: "no network", secrets: map[string]Secret{"TOKEN": good}, network: NetworkDenyAll, field: "secrets.TOKEN.host", hint: "list api.example.com"},
		{name: "in env too", secrets: map[string]Secret{"TOKEN": good}, env: map[string]string{"TOKEN": "x"}, field: "env", hint: "placeholder"},
		{name: "own authorities", secrets: map[string]Secret{"TOKEN": good}, env: map[string]string{"SSL_CERT_FILE": "/x"}, field: "env", hint: "leave it out"},
		{name: "called like a variable", secrets: map[string]Secret{"SSL_CERT_FILE": good}, field: "env"},
		{name: "a header twice", secrets: map[string]Secret{"A": good, "B": {Value: "another-token", Host: good.Host, Header: "authorization"}}, field: "secrets.B.header", hint: "one value"},
		{name: "two headers of a host", secrets: map[string]Secret{"A": good, "B": {Value: "another-token", Host: good.Host, Header: "X-Key"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := checkBrokered(tt.secrets, tt.env, tt.network, nil)
			if tt.field == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) || e.Code != CodeInvalidRequest || e.Details["field"] != tt.field || !strings.Contains(e.Hint, tt.hint) {
				t.Fatalf("%v, hint %q", err, HintOf(err))
			}
			if strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("the error has the value: %v", err)
			}
		})
	}
}
