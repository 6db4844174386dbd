package secret

import (
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

func TestBrokerFlags(t *testing.T) {
	for _, tt := range []struct {
		flags []string
		want  belljar.Secret // of TOKEN, without its value
		err   string
	}{
		{flags: []string{"TOKEN=api.example.com"}, want: belljar.Secret{Host: "api.example.com"}},
		{flags: []string{"TOKEN=api.example.com,header=X-Key"}, want: belljar.Secret{Host: "api.example.com", Header: "X-Key"}},
		{flags: []string{"TOKEN=api.example.com,header=X-Key,template=a, {}, b=c"}, want: belljar.Secret{Host: "api.example.com", Header: "X-Key", Template: "a, {}, b=c"}},
		{flags: []string{"TOKEN"}, err: "names no host"},
		{flags: []string{"TOKEN=,header=X"}, err: "names no host"},
		{flags: []string{"OTHER=api.example.com"}, err: "there is no secret OTHER"},
		{flags: []string{"TOKEN=api.example.com", "TOKEN=b.example.com"}, err: "is given twice"},
		{flags: []string{"TOKEN=api.example.com,X-Key"}, err: `unknown option "X-Key"`},
	} {
		secrets := map[string]belljar.Secret{"TOKEN": {Value: "s3cr3t-token"}}
		err := broker(secrets, tt.flags)
		switch {
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%v: %v", tt.flags, err)
		case tt.err == "":
			tt.want.Value = "s3cr3t-token"
			if got := secrets["TOKEN"]; err != nil || got != tt.want {
				t.Errorf("%v: %s %s %s, %v", tt.flags, got.Host, got.Header, got.Template, err)
			}
		}
	}
}
