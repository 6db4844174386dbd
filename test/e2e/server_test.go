//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/linux/rundir"
	runtimes "github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/gvisor"
	"github.com/belljar/belljar/internal/runtime/native"
	"github.com/belljar/belljar/internal/runtime/rack"
)

// patience limits every wait of a test, on a busy machine.
const patience = 10 * time.Minute

// promptly limits operations that must not wait for anything.
const promptly = time.Minute

// Limits of the tests' servers: for the start, the end, and the end after a kill.
const (
	readyTime = 3 * time.Minute
	stopTime  = 3 * time.Minute
	goneTime  = 2 * time.Minute
)

// server is a test's own belljar serve, on a port that the system chooses.
type server struct {
	t      *testing.T
	URL    string `json:"url"`
	Key    string `json:"api_key"`
	data   string
	cmd    *exec.Cmd
	done   chan struct{}
	ended  error // result of its process; valid after done
	output *lines
}

// lines keeps the output of a process.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// serve starts a server on a data folder and returns when it is ready.
func serve(t *testing.T, data string, args ...string) *server {
	t.Helper()
	s, ready := launch(t, data, args...)
	select {
	case err := <-ready:
		if err != nil {
			<-s.done
			t.Fatalf("the server is not ready: %v\n%s", err, s.output)
		}
	case <-time.After(readyTime):
		t.Fatalf("the server is not ready after %v\n%s", readyTime, s.dump())
	}
	return s
}

// launch starts a server. ready receives nil when it is ready, or the error.
func launch(t *testing.T, data string, args ...string) (s *server, ready <-chan error) {
	t.Helper()
	s = &server{t: t, data: data, done: make(chan struct{}), output: &lines{}}
	words := []string{"serve", "--json", "--listen", "127.0.0.1:0", "--data", data, "--set", "log_level=warn"}
	for _, patient := range []string{"default_startup_timeout_sec=300", "queue_ttl_sec=900", "idempotency_ttl_sec=3600"} { // the machine may be slow
		words = append(words, "--set", patient)
	}
	words = append(words, "--set", "pool_size=1") // most tests use one sandbox of a kind, and making each spare one takes up to half a second
	s.cmd = exec.Command(built.Belljar, append(words, args...)...)
	s.cmd.Stderr = s.output
	s.cmd.WaitDelay = goneTime // remaining processes must not hold its output open
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	// If the tests are killed, the server ends, too. The kernel ties that to the thread that starts it, so that thread must live
	// on.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(s.done)
		err := s.cmd.Start()
		started <- err
		if err == nil {
			s.ended = s.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		for line := range strings.Lines(s.output.String()) {
			if t.Failed() && strings.Contains(line, "level=ERROR") {
				t.Log(line)
			}
		}
		s.purge()
	})
	announced := make(chan error, 1)
	go func() {
		line, err := bufio.NewReader(out).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, s)
		}
		announced <- err
	}()
	return s, announced
}

// dump makes a hanging server print its goroutines, and ends it.
func (s *server) dump() string {
	_ = s.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-s.done:
	case <-time.After(goneTime):
	}
	return s.output.String()
}

// kill ends the server as a power cut would, and waits until it is gone.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.done
	if errors.Is(s.ended, exec.ErrWaitDelay) {
		s.t.Errorf("something has the output of the killed server open\n%s", s.output)
	}
}

// purge removes the server's remains, if no next server will.
func (s *server) purge() {
	text, err := os.ReadFile(filepath.Join(s.data, "installation"))
	if err != nil || !belljar.ValidID(strings.TrimSpace(string(text))) {
		return // it has made no sandboxes
	}
	options := func() rack.Options { // closing a runtime closes its program
		program, err := os.Open(built.Agent)
		if err != nil {
			s.t.Error(err)
		}
		return rack.Options{Agent: program, Installation: strings.TrimSpace(string(text))}
	}
	_ = os.Remove(filepath.Join(rundir.Default(), "servers", strings.TrimSpace(string(text))+".lock")) // left if it was killed
	s.purgeRuntime(native.New(options()))
	s.purgeRuntime(gvisor.New(gvisor.Options{Options: options()}))
}

// purgeRuntime removes the server's remains in a runtime. Otherwise a sandbox would live until its lease ends, and its
// programs would use the processor.
func (s *server) purgeRuntime(rt interface {
	runtimes.Runtime
	io.Closer
}, err error) {
	if err != nil {
		s.t.Error(err)
		return
	}
	defer rt.Close()
	left, err := rt.List(context.Background())
	for _, id := range left {
		err = errors.Join(err, rt.Remove(context.Background(), id))
	}
	if err != nil {
		s.t.Errorf("what the server has left: %v", err)
	}
}

// stop stops the server, waits for its end and returns its exit status.
func (s *server) stop() int {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-s.done:
	case <-time.After(stopTime):
		s.t.Fatalf("the server does not stop\n%s", s.dump())
	}
	return s.cmd.ProcessState.ExitCode()
}

// env is the environment of a client of this server.
func (s *server) env() []string {
	return append(os.Environ(), "BELLJAR_SERVER="+s.URL, "BELLJAR_API_KEY="+s.Key, "URL="+s.URL, "KEY="+s.Key)
}

// ask sends a request with a JSON body (none for nil) and returns the status and the response.
func (s *server) ask(method, path string, body any, header ...string) (int, map[string]any) {
	s.t.Helper()
	status, answer, err := s.try(method, path, body, header...)
	if err != nil {
		s.t.Fatalf("%s %s: %v\n%s", method, path, err, s.output)
	}
	return status, answer
}

// try is ask for a server that may die during the request.
func (s *server) try(method, path string, body any, header ...string) (int, map[string]any, error) {
	var content io.Reader
	switch b := body.(type) {
	case nil:
	case io.Reader:
		content = b
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			return 0, nil, err
		}
		content = bytes.NewReader(raw)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, content)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("X-API-KEY", s.Key)
	if content != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, err
	}
	answer := map[string]any{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &answer); err != nil {
			return resp.StatusCode, nil, fmt.Errorf("%d %.200q: %w", resp.StatusCode, raw, err)
		}
	}
	return resp.StatusCode, answer, nil
}

// text returns a body as text; a status other than 200 fails the test.
func (s *server) text(path string) string {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", s.Key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Errorf("GET %s: %d %v %.200s", path, resp.StatusCode, err, raw)
	}
	return string(raw)
}

// oneShot returns a request for a one-shot run of a shell line. Its time limit is long enough for any machine.
func oneShot(line string) map[string]any {
	return map[string]any{"spec_version": "1.0", "base_image": "host", "command": []string{"sh", "-c", line}, "timeout_sec": longTime}
}

// longTime is the time limit of commands that the test itself ends, in seconds.
const longTime = 900

const api = "/api/v1/sandbox"
