package docker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
)

// connected makes a runtime with an engine.
func connected(t *testing.T, host string, patience time.Duration) *Runtime {
	t.Helper()
	r, err := New(Options{
		Host: host, Patience: patience,
		Agent: func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("agent")), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// answered makes a runtime whose engine answers as handle does.
func answered(t *testing.T, handle http.HandlerFunc) *Runtime {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !strings.HasSuffix(q.URL.Path, "/_ping") {
			w.Header().Set("Content-Type", "application/json")
			handle(w, q)
		}
	}))
	t.Cleanup(server.Close)
	return connected(t, "tcp://"+server.Listener.Addr().String(), time.Minute)
}

// An image that hides the agent cannot fill the engine's disk: a volume that has the agent is not filled again.
func TestFilledVolume(t *testing.T) {
	for name, c := range map[string]struct {
		there  string // content of the volume
		copies int
	}{"complete": {"agent", 0}, "cut short": {"age", 1}, "empty": {"", 1}} {
		t.Run(name, func(t *testing.T) {
			copies := 0
			r := answered(t, func(w http.ResponseWriter, q *http.Request) {
				switch path := q.URL.Path; {
				case strings.HasSuffix(path, "/containers/create"):
					w.WriteHeader(http.StatusCreated)
					_, _ = io.WriteString(w, `{"Id": "c1"}`)
				case strings.HasSuffix(path, "/archive") && q.Method == http.MethodHead && c.there == "":
					w.WriteHeader(http.StatusNotFound)
				case strings.HasSuffix(path, "/archive") && q.Method == http.MethodHead:
					stat, _ := json.Marshal(container.PathStat{Name: agentName, Size: int64(len(c.there)), Mode: 0o555})
					w.Header().Set("X-Docker-Container-Path-Stat", base64.StdEncoding.EncodeToString(stat))
				case strings.HasSuffix(path, "/archive"):
					copies++
				case strings.HasSuffix(path, "/volumes"):
					_, _ = io.WriteString(w, `{"Volumes": []}`)
				case q.Method == http.MethodDelete:
					w.WriteHeader(http.StatusNoContent)
				default:
					_, _ = io.WriteString(w, `{"Name": "belljar-agent"}`)
				}
			})
			if _, err := r.volumes.ensure(t.Context(), "amd64", image{id: "sha256:1"}, true); err != nil {
				t.Fatal(err)
			}
			if copies != c.copies {
				t.Errorf("the agent was copied %d times, want %d", copies, c.copies)
			}
		})
	}
}

// A cancelled request does not wait until the engine has answered another one.
func TestCancelledFill(t *testing.T) {
	asked, over := make(chan struct{}), make(chan struct{})
	r := answered(t, func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-over
		_, _ = io.WriteString(w, `{"Name": "belljar-agent"}`)
	})
	first, second := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := r.volumes.ensure(context.Background(), "amd64", image{}, false)
		first <- err
	}()
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	go func() {
		_, err := r.volumes.ensure(ctx, "amd64", image{}, false)
		second <- err
	}()
	select {
	case err := <-second:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it waits")
	}
	close(over)
	if err := <-first; err != nil {
		t.Error(err)
	}
}
