package daemon

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/auth"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/local"
)

// signIns takes codes.
type signIns struct {
	auth.SignIns
	err error
}

func (s signIns) KeyParent(string) string { return "parent" }

func (s signIns) AddCode(context.Context, belljar.Caller, string, string) (time.Time, error) {
	return time.Now().Add(time.Minute), s.err
}

// A server prints its key, and a code, to a terminal alone. It serves without a code that cannot be stored.
func TestAnnounce(t *testing.T) {
	for name, c := range map[string]struct {
		env       []string
		full      error
		key, code bool
	}{
		"terminal": {key: true, code: true},
		"journal":  {env: []string{"JOURNAL_STREAM=8:1"}},
		"full":     {full: errors.New("store is full"), key: true},
	} {
		var said strings.Builder
		h := New(Options{Environment: local.Environment{Env: c.env, Stderr: &said}})
		n := &server{madeKey: "blj_secret", keyFile: "/data/api-key"}
		var err error
		if n.known, err = auth.New(auth.Options{Key: n.madeKey, SignIns: signIns{err: c.full}, Secret: make([]byte, 32)}); err != nil {
			t.Fatal(err)
		}
		err = announce(t.Context(), h, false, &config.Config{WebUI: true, Listen: "127.0.0.1:80"}, n, "http://127.0.0.1:80")
		if got := said.String(); err != nil || strings.Contains(got, n.madeKey) != c.key || strings.Contains(got, "/webui/#k=") != c.code ||
			strings.Contains(got, "store is full") != (c.full != nil) || !strings.Contains(got, n.keyFile) || !strings.Contains(got, "web page http://127.0.0.1:80/webui/") {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}

// A server warns of what others can read. A socket of this machine is not among that, whatever its path has in it.
func TestExposed(t *testing.T) {
	for _, c := range []struct {
		listen, url string
		want        bool
	}{
		{"0.0.0.0:80", "http://127.0.0.1:80", true}, {":80", "http://127.0.0.1:80", true}, {"box.example:80", "http://10.0.0.1:80", true},
		{"[::]:80", "http://[::]:80", true}, {"0.0.0.0:443", "https://127.0.0.1:443", false}, {"127.0.0.9:80", "http://127.0.0.9:80", false},
		{"[::1]:80", "http://[::1]:80", false}, {"localhost:80", "http://127.0.0.1:80", false}, {"unix:/run/b.sock", "unix:/run/b.sock", false},
		{"unix:/run/a:1/b.sock", "unix:/run/a:1/b.sock", false},
	} {
		if got := exposed(c.listen, c.url); got != c.want {
			t.Errorf("%s: %t", c.listen, got)
		}
	}
}

// The terms of models name the network that sandboxes get without asking for one.
func TestModelsNetwork(t *testing.T) {
	for policy, want := range map[string]bool{belljar.NetworkDenyAll: false, belljar.NetworkAllowlist: true} {
		if got := termsOf(&config.Config{NetworkDefault: policy}); got.ServerNetwork != want || got.Network {
			t.Errorf("%s: %+v", policy, got)
		}
	}
}
