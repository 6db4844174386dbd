package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api/auth"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// signIns accepts codes.
type signIns struct {
	auth.SignIns
	err error
}

func (s signIns) KeyParent(string) string { return "parent" }

func (s signIns) AddCode(context.Context, belljar.Caller, string, string) (time.Time, error) {
	return time.Now().Add(time.Minute), s.err
}

// A server prints its key, and a code, only to a terminal. If the code cannot be stored, it serves without one.
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
		var output strings.Builder
		h := New(Options{Environment: local.Environment{Env: c.env, Stderr: &output}})
		n := &server{madeKey: "blj_secret", keyFile: "/data/api-key"}
		var err error
		if n.known, err = auth.New(auth.Options{Key: n.madeKey, SignIns: signIns{err: c.full}, Secret: make([]byte, 32)}); err != nil {
			t.Fatal(err)
		}
		err = announce(t.Context(), h, false, &config.Config{WebUI: true, Listen: "127.0.0.1:80"}, n, "http://127.0.0.1:80")
		if got := output.String(); err != nil || strings.Contains(got, n.madeKey) != c.key || strings.Contains(got, "/webui/#k=") != c.code ||
			strings.Contains(got, "store is full") != (c.full != nil) || !strings.Contains(got, n.keyFile) || !strings.Contains(got, "web page http://127.0.0.1:80/webui/") {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}

// The hint is correct for a user's own key, wherever that is set.
func TestAnnounceOwnKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "belljar.yaml")
	if err := os.WriteFile(file, []byte("api_key: 0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, from := range map[string]config.Sources{
		"hint: curl ": {Env: []string{"SANDBOX_API_KEY=0123456789abcdef"}},
		"hint: set SANDBOX_API_KEY to the key (" + file + ":1: api_key), then curl ": {File: file},
		"hint: set SANDBOX_API_KEY to the key (flag api-key), then curl ":            {Set: map[string]string{"api-key": "0123456789abcdef"}},
	} {
		cfg, err := config.Load(from)
		if err != nil {
			t.Fatal(err)
		}
		var printed strings.Builder
		cfg.WebUI = false
		err = announce(t.Context(), New(Options{Environment: local.Environment{Stderr: &printed}}), false, &cfg, &server{}, "http://127.0.0.1:80")
		if got := printed.String(); err != nil || !strings.Contains(got, want+"-H \"X-API-KEY: $SANDBOX_API_KEY\" http://127.0.0.1:80/api/") {
			t.Errorf("%v, no %q in:\n%s", err, want, got)
		}
	}
}

// A key that an operator has written into the file of the key can be weak like the setting.
func TestAnnounceWeakKey(t *testing.T) {
	for key, weak := range map[string]bool{"": false, "x": true, "0123456789abcde": true, newKey(): false} {
		var stderr, stdout strings.Builder
		h := New(Options{Environment: local.Environment{Stdout: &stdout, Stderr: &stderr}})
		for _, asJSON := range []bool{false, true} {
			stderr.Reset()
			err := announce(t.Context(), h, asJSON, &config.Config{}, &server{madeKey: key, keyFile: "/data/api-key"}, "http://127.0.0.1:80")
			if got := stderr.String(); err != nil || strings.Contains(got, "warning: the key in /data/api-key has fewer than 16 characters") != weak {
				t.Errorf("%q: %v\n%s", key, err, got)
			}
		}
	}
}

// With --json, too, the journal gets no key. A pipe gets it, even in a terminal that a service has started.
func TestAnnounceJSON(t *testing.T) {
	for journal, want := range map[bool]string{true: "", false: "blj_secret"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		info, err := w.Stat()
		if err != nil {
			t.Fatal(err)
		}
		stream := "8:1"
		if journal {
			if stream = fileID(info); stream == "" {
				t.Skip("there is no journal here")
			}
		}
		h := New(Options{Environment: local.Environment{Env: []string{"JOURNAL_STREAM=" + stream}, Stdout: w, Stderr: io.Discard}})
		err = announce(t.Context(), h, true, &config.Config{}, &server{madeKey: "blj_secret", keyFile: "/data/api-key"}, "http://127.0.0.1:80")
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		var got served
		if err := json.NewDecoder(r).Decode(&got); err != nil || got.APIKey != want || got.KeyFile != "/data/api-key" {
			t.Errorf("journal %t: %v, %+v", journal, err, got)
		}
	}
}

// A server does not start if requests without a network policy, or its models, could have no network.
func TestNetworkOfNoRequest(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want string // the beginning of the error
	}{
		{nil, ""},
		{[]string{"SANDBOX_NETWORK_DEFAULT=allowlist"}, "SANDBOX_NETWORK_DEFAULT: "},
		{[]string{"SANDBOX_NETWORK_DEFAULT=allowlist", "SANDBOX_EGRESS_ALLOW=a.example"}, ""},
		{[]string{"SANDBOX_NETWORK_DEFAULT=allowlist", "SANDBOX_EGRESS_ALLOW_USERS=a=b=a.example"}, ""},
		{[]string{"SANDBOX_MCP_ALLOW=a.example"}, "SANDBOX_MCP_ALLOW: "},
		{[]string{"SANDBOX_MCP_ALLOW=a.example", "SANDBOX_MCP_ENABLED=false"}, ""},
		{[]string{"SANDBOX_MCP_ALLOW=*", "SANDBOX_EGRESS_ALLOW=*"}, "SANDBOX_MCP_ALLOW: "},
		{[]string{"SANDBOX_MCP_ALLOW=a.example", "SANDBOX_EGRESS_ALLOW=*"}, ""},
		{[]string{"SANDBOX_MCP_ALLOW_PRESETS=pip", "SANDBOX_EGRESS_PRESETS=npm", "SANDBOX_EGRESS_ALLOW=*"}, "SANDBOX_MCP_ALLOW_PRESETS: "},
		{[]string{"SANDBOX_MCP_ALLOW_PRESETS=pip", "SANDBOX_EGRESS_PRESETS=npm,pip"}, ""},
	} {
		cfg, err := config.Load(config.Sources{Env: c.env})
		if err != nil {
			t.Fatal(err)
		}
		p, own := service.DefaultPolicy(), service.DefaultPolicy()
		applyEgress(&p, &cfg, false)
		err = checkNetwork(p, &cfg)
		if message := fmt.Sprint(err); (c.want == "") != (err == nil) || !strings.HasPrefix(message, c.want) && err != nil || err != nil && belljar.HintOf(err) == "" {
			t.Errorf("%v: %v", c.env, err)
		}
		if applyEgress(&own, &cfg, true); len(c.env) == 1 && checkNetwork(own, &cfg) != nil { // it has every public host
			t.Errorf("%v: the operator's own server: %v", c.env, checkNetwork(own, &cfg))
		}
	}
}

// A server does not start with an image for which every request would be refused. An unchanged default is no contradiction, because other
// images work.
func TestImageOfNoRequest(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want string // the beginning of the error
	}{
		{[]string{"SANDBOX_DEFAULT_IMAGE=host"}, ""},
		{[]string{"SANDBOX_ALLOWED_IMAGES=python:*"}, ""},
		{[]string{"SANDBOX_ALLOWED_IMAGES=python:*", "SANDBOX_DEFAULT_IMAGE=host"}, "SANDBOX_DEFAULT_IMAGE: image \"host\" "},
		{[]string{"SANDBOX_ALLOWED_IMAGES=python:*", "SANDBOX_DEFAULT_IMAGE=docker.io/library/python:3.11"}, ""},
		{[]string{"SANDBOX_ALLOWED_IMAGES=python:3.11", "SANDBOX_DEFAULT_IMAGE=python@sha256:" + strings.Repeat("0", 64)}, ""},
		{[]string{"SANDBOX_ALLOWED_IMAGES=python:*", "SANDBOX_WORKSPACE_IMAGE=node:20"}, "SANDBOX_WORKSPACE_IMAGE: "},
		{[]string{"SANDBOX_ALLOWED_IMAGES=python:*", "SANDBOX_WORKSPACE_IMAGE=node:20", "SANDBOX_WORKSPACE_MODE=remote", "SANDBOX_WORKSPACE_URL=https://b.example", "SANDBOX_WORKSPACE_KEY=k"}, ""},
		{[]string{"SANDBOX_ALLOWED_IMAGES=python:*", "SANDBOX_MCP_IMAGE=node:20"}, "SANDBOX_MCP_IMAGE: "},
		{[]string{"SANDBOX_ALLOWED_IMAGES=python:*", "SANDBOX_MCP_IMAGE=node:20", "SANDBOX_MCP_ENABLED=false"}, ""},
	} {
		cfg, err := config.Load(config.Sources{Env: c.env})
		if err != nil {
			t.Fatal(err)
		}
		p := service.DefaultPolicy()
		applyImages(&p, &cfg)
		err = checkImages(p, &cfg)
		if (c.want == "") != (err == nil) || err != nil && (!strings.HasPrefix(err.Error(), c.want) || belljar.HintOf(err) == "") {
			t.Errorf("%v: %v", c.env, err)
		}
	}
}

// A server warns about images to pull that no request can name, directly or by an alias.
func TestPrepullOfNoRequest(t *testing.T) {
	for want, env := range map[string][]string{
		"":       {"SANDBOX_IMAGE_PREPULL=node:20"},
		"node:1": {"SANDBOX_IMAGE_PREPULL=python:3.11,node:1,node:2,node@sha256:" + strings.Repeat("0", 64), "SANDBOX_ALLOWED_IMAGES=python:*,js", "SANDBOX_IMAGE_ALIASES=js=node:2"},
	} {
		cfg, err := config.Load(config.Sources{Env: env})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(disallowed(&cfg), " "); got != want {
			t.Errorf("%v: %q", env, got)
		}
	}
}

// probed is a runtime of which only the probe's result is known.
type probed struct {
	runtime.Runtime
	caps runtime.Capabilities
	err  error
}

func (p probed) Probe(context.Context) (runtime.Capabilities, error) { return p.caps, p.err }

// A server does not start with a default trust level for which it has no runtime. A runtime that does not work now may work later.
func TestTrustOfNoRequest(t *testing.T) {
	native := probed{caps: runtime.Capabilities{Available: true, Isolation: runtime.IsolationNamespace}}
	for name, c := range map[string]struct {
		level   belljar.TrustLevel
		more    []runtime.Runtime
		refused bool
	}{
		"none":                 {},
		"weak enough":          {level: belljar.TrustStandard},
		"too strong":           {level: belljar.TrustUntrusted, refused: true},
		"one is strong":        {level: belljar.TrustUntrusted, more: []runtime.Runtime{probed{caps: runtime.Capabilities{Available: true, Isolation: runtime.IsolationUserKernel}}}},
		"one is unavailable":   {level: belljar.TrustUntrusted, more: []runtime.Runtime{probed{caps: runtime.Capabilities{Isolation: runtime.IsolationNamespace}}}},
		"one does not say":     {level: belljar.TrustUntrusted, more: []runtime.Runtime{probed{err: errors.New("no answer")}}},
		"another is weak, too": {level: belljar.TrustUntrusted, more: []runtime.Runtime{native}, refused: true},
	} {
		p := service.DefaultPolicy()
		p.DefaultTrust = c.level
		err := checkTrust(t.Context(), p, append(c.more, native))
		if (err != nil) != c.refused || err != nil && (!strings.HasPrefix(err.Error(), "SANDBOX_DEFAULT_TRUST_LEVEL: ") || belljar.HintOf(err) == "") {
			t.Errorf("%s: %v", name, err)
		}
		if p.EnableExecution = false; checkTrust(t.Context(), p, append(c.more, native)) != nil {
			t.Errorf("%s: refused without execution", name)
		}
	}
}

// untestable is a runtime whose test has another result than its probe.
type untestable struct {
	probed
	tested runtime.Capabilities
	fault  error
}

func (untestable) Name() string { return "fake" }

func (u untestable) Test(context.Context) (runtime.Capabilities, error) { return u.tested, u.fault }

// A server does not start with a default runtime that fails its test, whatever its probe reports. A test without a result does not count.
func TestDefaultRuntimeIsTested(t *testing.T) {
	works := runtime.Capabilities{Available: true}
	refused := works
	refused.Refuse(runtime.Reason{Detail: "no user namespaces"})
	for name, c := range map[string]struct {
		tested runtime.Capabilities
		fault  error
		want   string
	}{
		"works": {tested: works}, "no result": {tested: works, fault: runtime.ErrFull},
		"refused": {tested: refused, want: "runtime fake does not work on this host: no user namespaces"},
	} {
		d := &server{log: slog.New(slog.DiscardHandler)}
		got := ""
		if err := d.adopt(&config.Config{}, unit{Runtime: untestable{probed{caps: works}, c.tested, c.fault}}, nil); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Models cannot use a runtime that the server does not have.
func TestModelsRuntime(t *testing.T) {
	d := &server{runtimes: []string{"native"}}
	err := d.openModels(&config.Config{MCP: true, MCPRuntime: "docker"}, nil, nil, nil, nil, nil)
	if belljar.CodeOf(err) != belljar.CodeInvalidRequest || !strings.Contains(err.Error(), "SANDBOX_MCP_RUNTIME") || belljar.HintOf(err) != "one of: native" {
		t.Error(err)
	}
}

// A server warns about traffic that others can read. A socket on this machine is excluded, whatever its path contains.
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

// The terms of models name the sandboxes' default network.
func TestModelsNetwork(t *testing.T) {
	for policy, want := range map[string]bool{belljar.NetworkDenyAll: false, belljar.NetworkAllowlist: true} {
		if got := termsOf(&config.Config{NetworkDefault: policy}); got.ServerNetwork != want || got.Network {
			t.Errorf("%s: %+v", policy, got)
		}
	}
}
