//go:build linux

package sprites_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/sprites"
)

// scripts runs the scripts of deploy/sandbox with an environment of their own.
type scripts struct {
	t   *testing.T
	dir string // folder in which they run
	env map[string]string
}

// run returns the exit code and the output of a script. change are settings, NAME=value.
func (s *scripts) run(name string, change ...string) (int, string) {
	s.t.Helper()
	path, err := filepath.Abs("../../deploy/sandbox/" + name + ".sh")
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(path)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for k, v := range s.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Env = append(cmd.Env, change...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	if strings.Contains(string(out), sprites.Token) {
		s.t.Errorf("%s tells the token: %s", name, out)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func (s *scripts) want(code int, text, name string, change ...string) {
	s.t.Helper()
	if got, out := s.run(name, change...); got != code || !strings.Contains(out, text) {
		s.t.Errorf("%s %v: %d, want %d with %q:\n%s", name, change, got, code, text, out)
	}
}

func port(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestScripts(t *testing.T) {
	need.Program(t, "curl")
	program, err := build.AgentProgram()
	if err != nil {
		t.Fatal(err)
	}
	agent := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(agent, program, 0o755); err != nil {
		t.Fatal(err)
	}
	s := sprites.New("box", t.TempDir())
	defer s.End()
	if err := os.MkdirAll(s.Dir+"/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Dir+"/bin/bash", nil, 0o755); err != nil {
		t.Fatal(err)
	}
	at := port(t)
	x := &scripts{t, t.TempDir(), map[string]string{
		"SPRITES_BASE_URL": s.URL, "SPRITES_SPRITE_NAME": "box", "SPRITES_TOKEN": sprites.Token, "SPRITES_WORKSPACE_SERVICE_HOST": "127.0.0.1",
		"SPRITES_WORKSPACE_SERVICE_PORT": at, "SPRITES_WORKSPACE_SERVICE_PATH": "/internal/v1", "AGENT": agent, "SERVICE_LISTEN_PORT": at, "WAIT": "20",
	}}
	const deploy, restart, configure, smoke = "deploy_workspace_service", "restart_workspace_service", "configure_exec_profiles", "smoke_check"

	x.want(4, "does not answer", smoke)
	x.want(5, "deploy it first", restart)
	x.want(0, "is deployed", deploy)
	if mode, err := os.Stat(s.Dir + "/home/sprite/.auth/workspace-token"); err != nil || mode.Mode().Perm() != 0o600 {
		t.Errorf("the token: %v, %v", mode, err)
	}
	before := len(s.Requests())
	x.want(0, "already", deploy)
	if sent := s.Requests()[before:]; len(sent) != 1 || !strings.HasPrefix(sent[0], "GET ") {
		t.Errorf("the second deployment sends %q", sent)
	}
	x.want(0, "the service runs", restart)
	x.want(0, "the service runs", restart)
	x.want(0, "all is well", smoke)
	for _, dir := range []string{"/home/sprite/workspace", "/srv/workspace-api/run/secrets"} {
		if _, err := os.Stat(s.Dir + dir); err != nil {
			t.Error(err)
		}
	}

	x.want(0, "wrote", configure)
	x.want(0, "as it should be", configure)
	if text, err := os.ReadFile(x.dir + "/workspace-templates.json"); err != nil || string(text) != `{"shell":{"kind":"pty","command":["/bin/bash"]}}`+"\n" {
		t.Errorf("%s, %v", text, err)
	}
	x.want(1, "has no /bin/missing", configure, "CHAT_COMMAND=/bin/missing")
	x.want(2, "absolute path", configure, "PTY_SHELL=/bin/sh;reboot")

	// Missing or wrong settings.
	x.want(2, "SPRITES_TOKEN is not set", deploy, "SPRITES_TOKEN=")
	x.want(2, "SPRITES_WORKSPACE_SERVICE_HOST is not set", smoke, "SPRITES_WORKSPACE_SERVICE_HOST=")
	x.want(2, "not the name of a sprite", deploy, "SPRITES_SPRITE_NAME=../other")
	x.want(2, "AGENT", deploy, "AGENT=/nowhere")
	x.want(2, "must not be in", deploy, "SANDBOX_SPRITES_WORKSPACE_ROOT=/srv")
	x.want(2, "must not be in", deploy, "SANDBOX_SPRITES_SERVICE_ROOT=/home/sprite/.auth/service")
	x.want(2, "absolute path", deploy, "SANDBOX_SPRITES_WORKSPACE_ROOT=/home/$(reboot)")
	x.want(2, "host name", smoke, "SPRITES_WORKSPACE_SERVICE_HOST=user@host")
	// The four diagnoses.
	x.want(3, "refused", deploy, "SPRITES_TOKEN=wrong", "SPRITES_WORKSPACE_SERVICE_TOKEN=0123456789abcdef0123456789abcdef")
	x.want(3, "refused", smoke, "SPRITES_WORKSPACE_SERVICE_TOKEN=0123456789abcdef0123456789abcdef")
	x.want(4, "does not answer", smoke, "SPRITES_WORKSPACE_SERVICE_PORT="+port(t))
	x.want(5, "something else", smoke, "SPRITES_WORKSPACE_SERVICE_PATH=/elsewhere")
	x.want(6, "expected", smoke, "EXPECTED_VERSION=0.2.0")
	x.want(6, "expected", smoke, "EXPECTED_VERSION=1.0.0")
	// Faults of the API.
	for code, fault := range map[int]http.HandlerFunc{
		4: func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, sprites.Token, http.StatusServiceUnavailable)
		},
		5: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		},
		3: func(w http.ResponseWriter, r *http.Request) { http.Error(w, sprites.Token, http.StatusForbidden) },
	} {
		s.Break(func(w http.ResponseWriter, r *http.Request) bool { fault(w, r); return true })
		x.want(code, "", deploy)
		x.want(code, "", restart)
		x.want(code, "", configure)
	}
	s.Break(nil)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>"+sprites.Token) }))
	defer page.Close()
	_, other, _ := net.SplitHostPort(page.Listener.Addr().String())
	x.want(5, "something else", smoke, "SPRITES_WORKSPACE_SERVICE_PORT="+other)
	open := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"status":"ok","version":"0.1.0"}`) }))
	defer open.Close()
	_, other, _ = net.SplitHostPort(open.Listener.Addr().String())
	x.want(1, "not refused", smoke, "SPRITES_WORKSPACE_SERVICE_PORT="+other)
}
