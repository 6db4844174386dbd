//go:build linux

package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/need"
)

// patience bounds what must happen, on a machine that has other things to do as well.
const patience = 10 * time.Minute

// programs are built once, and the client installed.
type programs struct {
	belljar, node string
	missing       string // a program that is missing; "" for none
	dir           string // that the tests remove; "" for none
}

// prepared is what all tests of the package use.
var prepared = sync.OnceValues(prepare)

func TestMain(m *testing.M) {
	if err := build.Alone(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if p, err := prepared(); err == nil && p.dir != "" {
		_ = os.RemoveAll(p.dir)
	}
	os.Exit(code)
}

func prepare() (programs, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return programs{missing: "node"}, nil
	}
	if _, err := os.Stat("node_modules/@modelcontextprotocol/sdk"); err != nil {
		npm, err := exec.LookPath("npm")
		if err != nil {
			return programs{missing: "npm"}, nil
		}
		if out, err := exec.Command(npm, "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts").CombinedOutput(); err != nil {
			return programs{}, fmt.Errorf("npm ci: %w\n%s", err, out)
		}
	}
	dir, err := os.MkdirTemp("", "belljar-mcp-")
	if err != nil {
		return programs{}, err
	}
	built, err := build.Into(dir)
	return programs{belljar: built.Belljar, node: node, dir: dir}, err
}

func ready(t testing.TB) programs {
	t.Helper()
	p, err := prepared()
	if err != nil {
		t.Fatal(err)
	}
	if p.missing != "" {
		need.Missing(t, "%s", p.missing)
	}
	return p
}

// server is a belljar serve of a test's own.
type server struct {
	URL  string `json:"url"`
	Key  string `json:"api_key"`
	PID  int    `json:"pid"`
	cmd  *exec.Cmd
	said bytes.Buffer
	done chan error
}

func (p programs) serve(t testing.TB) *server {
	t.Helper()
	s := &server{done: make(chan error, 1)}
	s.cmd = exec.Command(p.belljar, "serve", "--json", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--set", "log_level=warn",
		"--set", "default_startup_timeout_sec=300", "--set", "queue_ttl_sec=900", "--set", "end_sessions=true", "--set", "pool_size=0")
	s.cmd.Env = append(os.Environ(), "SANDBOX_IMAGE_PULL=never")
	s.cmd.Stderr = &s.said
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-s.done:
		case <-time.After(patience):
			_ = s.cmd.Process.Kill() // then it has
			t.Error("the server does not end")
			<-s.done
		}
		if t.Failed() {
			t.Logf("the server said:\n%s", &s.said)
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	go func() { s.done <- s.cmd.Wait() }()
	if err := errors.Join(err, json.Unmarshal(line, s)); err != nil {
		t.Fatalf("the server is not ready: %v", err)
	}
	return s
}

// left are the sessions and runs under way that a server has.
func (s *server) left(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, s.URL+"/api/v1/sandbox/me", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", s.Key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var me struct{ Used map[string]any }
	if err := json.NewDecoder(resp.Body).Decode(&me); err != nil {
		t.Fatal(err)
	}
	if me.Used["sessions"] == 0.0 && me.Used["concurrent_runs"] == 0.0 {
		return ""
	}
	return fmt.Sprint(me.Used)
}

// check runs the client and makes each of its checks a test.
func (p programs) check(t *testing.T, env []string, args ...string) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, p.node, append([]string{"check.mjs"}, args...)...)
	cmd.Env = append(append(os.Environ(), "SANDBOX_IMAGE_PULL=never"), env...)
	cmd.WaitDelay = time.Minute
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	checks := 0
	for line := range bytes.Lines(out) {
		var c struct {
			Name, Why string
			OK        bool
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		checks++
		t.Run(c.Name, func(t *testing.T) {
			if !c.OK {
				t.Error(c.Why)
			}
		})
	}
	if err != nil || checks < 10 {
		t.Errorf("%d checks, %v\n%s", checks, err, &said)
	}
}

// On stdio no server is needed.
func TestStdio(t *testing.T) {
	p := ready(t)
	p.check(t, nil, "stdio", p.belljar)
}

// With a server the sandboxes are the server's, and nothing is left there.
func TestStdioWithServer(t *testing.T) {
	p := ready(t)
	s := p.serve(t)
	p.check(t, []string{"BELLJAR_API_KEY=" + s.Key}, "stdio", p.belljar, "--server", s.URL)
	s.gone(t)
}

func TestHTTP(t *testing.T) {
	p := ready(t)
	s := p.serve(t)
	p.check(t, nil, "http", s.URL+"/mcp", s.Key)
}

// gone waits until a server has no sessions and no sandboxes left.
func (s *server) gone(t *testing.T) {
	t.Helper()
	left := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) { // a look at the condition
		if left = s.left(t); left == "" {
			return
		}
	}
	t.Errorf("the server has %s left", left)
}
