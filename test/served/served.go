//go:build linux

// Package served starts servers for black-box tests, which use them from outside, as programs do.
package served

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
)

// Server is a test's own belljar serve, on a port that the system chooses.
type Server struct {
	URL string `json:"url"`
	Key string `json:"api_key"` // the operator's

	Data string `json:"-"` // its folder

	log log
}

const (
	readyTime = 2 * time.Minute
	stopTime  = 2 * time.Minute
)

// Start starts a server of the given belljar, with settings as "name=value", and returns when it is ready. The server and its
// sandboxes end with the test.
func Start(t testing.TB, program string, settings ...string) *Server {
	t.Helper()
	s := &Server{Data: t.TempDir()}
	args := []string{"serve", "--json", "--listen", "127.0.0.1:0", "--data", s.Data}
	usual := []string{"log_level=warn", "image_pull=never", "default_startup_timeout_sec=300", "queue_ttl_sec=900", "pool_size=1", "end_sessions=true"}
	for _, setting := range append(usual, settings...) { // the last value of a name counts
		args = append(args, "--set", setting)
	}
	cmd := exec.Command(program, args...)
	cmd.Stderr = &s.log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		line, err := bufio.NewReader(out).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, s)
		}
		ready <- err
		ended <- cmd.Wait()
	}()
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Logf("the server has ended before: %v", err)
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the server ends with %v\n%s", err, &s.log)
			}
		case <-time.After(stopTime):
			_ = cmd.Process.Kill()
			t.Errorf("the server does not stop\n%s", &s.log)
		}
	})
	select {
	case err = <-ready:
		if err != nil {
			t.Fatalf("the server is not ready: %v\n%s", err, &s.log)
		}
	case <-time.After(readyTime):
		_ = cmd.Process.Kill()
		t.Fatalf("the server is not ready after %v\n%s", readyTime, &s.log)
	}
	return s
}

// User creates a new caller with that name, and returns an API key.
func (s *Server) User(t testing.TB, name string) string {
	t.Helper()
	c, err := client.New(client.Options{URL: s.URL, APIKey: s.Key})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	token, err := c.Admin().CreateToken(context.Background(), belljar.TokenSpec{UserID: name})
	if err != nil {
		t.Fatal(err)
	}
	return token.Secret
}

// Env returns this process's environment with the server, and a key for it, as clients read them.
func (s *Server) Env(key string) []string {
	return append(os.Environ(), "BELLJAR_SERVER="+s.URL, "BELLJAR_API_KEY="+key)
}

// Log returns the server's log.
func (s *Server) Log() string { return s.log.String() }

type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *log) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *log) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
