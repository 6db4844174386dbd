//go:build linux

package sprites_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/sprites"
	"github.com/belljar/belljar/internal/upstream"
	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/leak"
	stand "github.com/belljar/belljar/test/sprites"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// sprite simulates a sprite with the agent in it, and a workspace service.
type sprite struct {
	*stand.Server
	state   string
	service string // address

	mu    sync.Mutex
	noted []string
}

func newSprite(t *testing.T) *sprite {
	t.Helper()
	program, err := build.AgentProgram()
	if err != nil {
		t.Fatal(err)
	}
	api, service := stand.Deployed(t, program)
	return &sprite{Server: api, state: t.TempDir(), service: "http://" + service + "/internal/v1"}
}

// open returns a runtime for the sprite, which is closed at the end of the test.
func (s *sprite) open(t *testing.T, change func(api, service *upstream.Options)) *sprites.Runtime {
	t.Helper()
	api := upstream.Options{URL: s.URL, Token: stand.Token, Allow: sprites.Rules("box"), Breaker: &upstream.Breaker{Rest: 50 * time.Millisecond}}
	service := upstream.Options{URL: s.service, Token: stand.ServiceToken, Allow: []upstream.Rule{
		{Methods: []string{http.MethodGet}, Path: "/healthz"}, {Methods: []string{http.MethodGet}, Path: "/__meta/version"},
	}}
	if change != nil {
		change(&api, &service)
	}
	to, err := upstream.New(api)
	if err != nil {
		t.Fatal(err)
	}
	at, err := upstream.New(service)
	if err != nil {
		t.Fatal(err)
	}
	r, err := sprites.New(sprites.Options{
		API: to, Service: upstream.CheckOptions{Guard: at, Version: wire.WorkspaceAPI}, Sprite: "box",
		Agent: stand.Agent, Workspace: stand.Workspace, Secrets: stand.Secrets,
		State: s.state, Patience: 20 * time.Second,
		Observe: func(what string, why upstream.Reason) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.noted = append(s.noted, strings.TrimSpace(what+" "+string(why)))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func spec() runtime.Spec {
	return runtime.Spec{
		ID: belljar.NewID(), Root: runtime.Root{Ref: runtime.HostRef}, Limits: belljar.DefaultLimits(), Lifetime: runtime.LifetimeDetached,
		Lease: time.Minute, Workspace: runtime.Workspace{Bytes: 1 << 20, Inodes: 100, Exec: true, Medium: runtime.MediumMemory},
	}
}

func create(t *testing.T, r *sprites.Runtime) runtime.Sandbox {
	t.Helper()
	box, err := r.Create(t.Context(), spec())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Destroy(context.Background()); err != nil && !errors.Is(err, runtime.ErrGone) {
			t.Error(err)
		}
	})
	return box
}

// run runs a shell command and returns its output.
func run(t *testing.T, box runtime.Sandbox, script string) string {
	t.Helper()
	c := agent.New(box.Dial)
	info, err := c.Ping(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Exec(t.Context(), wire.Exec{ID: belljar.NewID(), Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, UID: info.UID, GID: info.GID})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var out strings.Builder
	exit, err := p.Output(t.Context(), func(_ int64, _ wire.Stream, b []byte) error {
		out.Write(b)
		return nil
	})
	if err != nil || exit.Code != 0 {
		t.Fatalf("%+v, %v: %s", exit, err, out.String())
	}
	return out.String()
}

func TestSandbox(t *testing.T) {
	s := newSprite(t)
	r := s.open(t, nil)
	caps, err := r.Probe(t.Context())
	if err != nil || !caps.Available || caps.Isolation != runtime.IsolationRemote {
		t.Fatalf("%+v, %v", caps, err)
	}
	for _, p := range caps.Protections {
		if p.Enforced == (p.By == "") || !p.Enforced && p.Hint == "" {
			t.Errorf("%+v", p)
		}
	}
	box := create(t, r)
	if got := run(t, box, "echo hello > file; pwd; cat file"); got != s.Dir+"/home/sprite/workspace\nhello\n" {
		t.Errorf("%q", got)
	}
	big := run(t, box, "head -c 3000000 /dev/zero | tr '\\0' x")
	if len(big) != 3000000 {
		t.Errorf("%d bytes", len(big))
	}
	// The sprite holds one sandbox.
	if _, err := r.Create(t.Context(), spec()); !errors.Is(err, runtime.ErrFull) {
		t.Errorf("a second sandbox: %v", err)
	}
	if caps, err := r.Test(t.Context()); !errors.Is(err, runtime.ErrFull) || !caps.Available {
		t.Errorf("a test meanwhile: %+v, %v", caps.Reasons, err)
	}
	ids, err := r.List(t.Context())
	if err != nil || !slices.Equal(ids, []string{box.ID()}) {
		t.Errorf("%v, %v", ids, err)
	}
	if err := box.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	exit, err := box.Wait(t.Context())
	if err != nil || exit.Reason != runtime.ExitDestroyed || s.Sessions() != 0 {
		t.Errorf("%v, %v, %d sessions", exit, err, s.Sessions())
	}
	if err := box.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := box.Dial(t.Context()); !errors.Is(err, runtime.ErrGone) {
		t.Errorf("%v", err)
	}
	if entries, _ := os.ReadDir(s.state); len(entries) != 0 {
		t.Errorf("records are left: %v", entries)
	}
	// The files stay for the next sandbox.
	if got := run(t, create(t, r), "cat file"); got != "hello\n" {
		t.Errorf("%q", got)
	}
	for i, id := range s.RequestIDs() {
		if strings.Contains(s.Requests()[i], "GET") && id == "" {
			t.Errorf("%s has no id", s.Requests()[i])
		}
	}
}

func TestRefuses(t *testing.T) {
	r := newSprite(t).open(t, nil)
	for name, change := range map[string]func(*runtime.Spec){
		"memory":   func(s *runtime.Spec) { s.Require = []string{runtime.ProtectMemory} },
		"network":  func(s *runtime.Spec) { s.Require = []string{runtime.ProtectNetwork} },
		"an image": func(s *runtime.Spec) { s.Root = runtime.Root{Ref: "python", Dir: "/images/python"} },
		"a layer":  func(s *runtime.Spec) { s.Root.Layers = []runtime.Layer{{Name: "a", Dir: "/a"}} },
		"a disk":   func(s *runtime.Spec) { s.Workspace.Medium = runtime.MediumDisk },
	} {
		x := spec()
		change(&x)
		if _, err := r.Create(t.Context(), x); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if ids, err := r.List(t.Context()); err != nil || len(ids) != 0 {
		t.Errorf("%v, %v", ids, err)
	}
	if _, err := r.Attach(t.Context(), belljar.NewID()); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if err := r.Remove(t.Context(), belljar.NewID()); err != nil {
		t.Error(err)
	}
}

// No output of a command is lost when a connection breaks.
func TestDisconnect(t *testing.T) {
	s := newSprite(t)
	r := s.open(t, nil)
	box := create(t, r)
	c := agent.New(box.Dial)
	info, err := c.Ping(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := belljar.NewID()
	p, err := c.Exec(t.Context(), wire.Exec{
		ID: id, Argv: []string{"/bin/sh", "-c", "for part in 1 2 3; do echo up; read go; seq 1000; done"}, Env: []string{"PATH=/usr/bin:/bin"},
		UID: info.UID, GID: info.GID, Stdin: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	at := int64(0)
	take := func(from int64, _ wire.Stream, b []byte) error {
		out.Write(b)
		if at = from + int64(len(b)); strings.HasSuffix(out.String(), "up\n") {
			s.Disconnect() // and the program waits
		}
		return nil
	}
	for n := 0; ; n++ {
		_, err = p.Output(t.Context(), take)
		p.Close()
		if err == nil {
			break
		}
		if !errors.Is(err, agent.ErrDisconnected) || n > 3 {
			t.Fatal(err)
		}
		if p, err = c.Attach(t.Context(), id, at); err != nil {
			t.Fatal(err)
		}
		wrote := make(chan struct{})
		defer func() { <-wrote }()
		go func(p *agent.Process) {
			defer close(wrote)
			_, _ = p.Write([]byte("go\n"))
		}(p)
	}
	lines := strings.Split(out.String(), "\n")
	for i, line := range lines[:min(len(lines), 3003)] {
		want := strconv.Itoa(i % 1001)
		if i%1001 == 0 {
			want = "up"
		}
		if line != want {
			t.Fatalf("line %d is %q", i, line)
		}
	}
	if len(lines) != 3004 {
		t.Errorf("%d lines", len(lines))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.noted, "disconnected unreachable") {
		t.Errorf("%q", s.noted)
	}
}

// A restart of the server finds the sandbox again.
func TestRestart(t *testing.T) {
	s := newSprite(t)
	first := s.open(t, nil)
	box := create(t, first)
	run(t, box, "sleep 1000 & echo $! > pid")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := box.Wait(t.Context()); err == nil {
		t.Error("the old sandbox says it has ended")
	}
	second := s.open(t, nil)
	ids, err := second.List(t.Context())
	if err != nil || !slices.Equal(ids, []string{box.ID()}) {
		t.Fatalf("%v, %v", ids, err)
	}
	if _, err := second.Create(t.Context(), spec()); !errors.Is(err, runtime.ErrFull) {
		t.Errorf("%v", err)
	}
	again, err := second.Attach(t.Context(), box.ID())
	if err != nil {
		t.Fatal(err)
	}
	if got := run(t, again, "kill -0 $(cat pid) && echo lives"); got != "lives\n" {
		t.Errorf("%q", got)
	}
	if err := second.Remove(t.Context(), box.ID()); err != nil || s.Sessions() != 0 {
		t.Errorf("%v, %d sessions", err, s.Sessions())
	}
	pid, err := os.ReadFile(filepath.Join(s.Dir, "home/sprite/workspace/pid"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(pid))); err == nil {
		t.Error("a program is left")
	}
}

// The sandbox of a single command ends with it, and so do its programs.
func TestCreator(t *testing.T) {
	s := newSprite(t)
	r := s.open(t, nil)
	x := spec()
	x.Lifetime = runtime.LifetimeCreator
	box, err := r.Create(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	run(t, box, "sleep 1000 & echo $! > pid")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	pid, err := os.ReadFile(filepath.Join(s.Dir, "home/sprite/workspace/pid"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(pid))); err == nil || s.Sessions() != 0 {
		t.Errorf("a program is left: %v, %d sessions", err, s.Sessions())
	}
}

// A cold start of the sprite ends its sessions.
func TestColdStart(t *testing.T) {
	s := newSprite(t)
	r := s.open(t, nil)
	box := create(t, r)
	s.Freeze()
	exit, err := box.Wait(t.Context())
	if err != nil || exit.Reason != runtime.ExitKilled && exit.Reason != runtime.ExitAgent {
		t.Errorf("%v, %v", exit, err)
	}
	if got := run(t, create(t, r), "echo new"); got != "new\n" {
		t.Errorf("%q", got)
	}
}

func TestFaults(t *testing.T) {
	s := newSprite(t)
	step := func(t *testing.T, err error, want upstream.Reason) {
		t.Helper()
		var st *runtime.StepError
		if !errors.As(err, &st) || st.Hint == "" || upstream.ReasonOf(err) != want && want != "" {
			t.Errorf("%v", err)
		}
		if err != nil && (strings.Contains(err.Error(), stand.Token) || strings.Contains(err.Error(), "127.0.0.1")) {
			t.Errorf("the error tells: %v", err)
		}
	}
	t.Run("token", func(t *testing.T) {
		r := s.open(t, func(api, _ *upstream.Options) { api.Token = "wrong" })
		if err := r.Ready(t.Context()); upstream.ReasonOf(err) != upstream.Auth {
			t.Errorf("%v", err)
		}
		_, err := r.Create(t.Context(), spec())
		step(t, err, "")
	})
	t.Run("service token", func(t *testing.T) {
		r := s.open(t, func(_, service *upstream.Options) { service.Token = "wrong" })
		caps, err := r.Probe(t.Context())
		if err != nil || caps.Available || !strings.Contains(caps.Reasons[0].Detail, "auth") || caps.Reasons[0].Hint == "" {
			t.Errorf("%+v, %v", caps, err)
		}
		_, err = r.Create(t.Context(), spec())
		step(t, err, "")
	})
	for name, c := range map[string]struct {
		fault  http.HandlerFunc
		reason upstream.Reason
	}{
		"503": {func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, stand.Token, http.StatusServiceUnavailable)
		}, upstream.Unreachable},
		"429": {func(w http.ResponseWriter, r *http.Request) { http.Error(w, stand.Token, http.StatusTooManyRequests) }, upstream.Unreachable},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		}, upstream.BadPath},
		"404":     {func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, upstream.BadPath},
		"page":    {func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("<html>" + stand.Token)) }, ""},
		"hang up": {func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, upstream.Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.open(t, nil)
			if err := r.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.Break(func(w http.ResponseWriter, r *http.Request) bool { c.fault(w, r); return true })
			defer s.Break(nil)
			_, err := r.Create(t.Context(), spec())
			if err == nil || c.reason != "" && upstream.ReasonOf(err) != c.reason || strings.Contains(err.Error(), stand.Token) {
				t.Errorf("%v", err)
			}
			if ids, err := r.List(t.Context()); err != nil || len(ids) != 0 {
				t.Errorf("%v, %v", ids, err)
			}
		})
	}
	t.Run("agent", func(t *testing.T) {
		r := s.open(t, nil)
		path := s.Dir + "/srv/workspace-api/belljar-agent"
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		defer os.Rename(path+".away", path)
		_, err := r.Create(t.Context(), spec())
		step(t, err, "")
		if s.Sessions() != 0 {
			t.Error("a session is left")
		}
	})
	t.Run("attach", func(t *testing.T) { // it fails first and then works
		r := s.open(t, nil)
		box := create(t, r)
		var n int
		s.Break(func(w http.ResponseWriter, r *http.Request) bool {
			if n++; n > 3 {
				return false
			}
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return true
		})
		defer s.Break(nil)
		conn, err := box.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.Disconnect()
		_, _ = io.Copy(io.Discard, conn) // until the connection is gone
		conn.Close()
		if got := run(t, box, "echo back"); got != "back\n" {
			t.Errorf("%q", got)
		}
	})
	if s.Sessions() != 0 {
		t.Errorf("%d sessions are left", s.Sessions())
	}
}

// TestUnfinishedRecord checks that the start removes a record that a killed process had not finished, and no other.
func TestUnfinishedRecord(t *testing.T) {
	s := newSprite(t)
	kept := belljar.NewID() + ".json"
	for _, name := range []string{kept, belljar.NewID() + ".json.new"} {
		if err := os.WriteFile(filepath.Join(s.state, name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.open(t, nil)
	if entries, err := os.ReadDir(s.state); err != nil || len(entries) != 1 || entries[0].Name() != kept {
		t.Errorf("%v, %v", entries, err)
	}
}
