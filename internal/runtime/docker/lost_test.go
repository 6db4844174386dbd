package docker

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/test/sockdir"
)

// Destroy does not wait again for an engine that counts as lost: it sends one request. The remains are removed when the
// engine is back.
func TestDestroyOnALostEngine(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodDelete {
			asked.Add(1)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	r := connected(t, "tcp://"+server.Listener.Addr().String(), time.Hour)
	s := r.sandbox("s", "c1", true, 1)
	s.End(runtime.Exit{Reason: runtime.ExitEngineGone})
	if err := s.Destroy(t.Context()); err == nil {
		t.Error("a sandbox was destroyed on an engine that is away")
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the engine was asked %d times", n)
	}
}

// Destroy returns when the container is gone, whatever happens to the connection to it, and does not wait for usage
// figures.
func TestDestroyReturns(t *testing.T) {
	for name, mute := range map[string]bool{"its connection stays open": false, "the engine does not say how it is": true} {
		t.Run(name, func(t *testing.T) {
			var gone atomic.Bool
			over := make(chan struct{}) // closed at the end of the test
			l, err := net.Listen("unix", filepath.Join(sockdir.New(t), "s"))
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				switch {
				case strings.HasSuffix(q.URL.Path, "/_ping"):
				case q.Method == http.MethodDelete:
					gone.Store(true)
					w.WriteHeader(http.StatusNoContent)
				case mute && !gone.Load():
					select {
					case <-q.Context().Done():
					case <-over:
					}
				default:
					w.WriteHeader(http.StatusNotFound)
				}
			}))
			server.Listener.Close()
			server.Listener = l
			server.Start()
			t.Cleanup(server.Close)
			r := connected(t, "unix://"+l.Addr().String(), 3*time.Second)
			t.Cleanup(func() { close(over) })
			ours, theirs := net.Pipe()
			t.Cleanup(func() { theirs.Close() })
			s := r.sandbox("s", "c1", true, 1)
			r.watch(s, wire.NewMuxHost(ours))
			destroyed := make(chan error, 1)
			go func() { destroyed <- s.Destroy(t.Context()) }()
			select {
			case err := <-destroyed:
				if exit := s.Exit(); err != nil || exit == nil || exit.Reason != runtime.ExitDestroyed {
					t.Errorf("%v, %v", exit, err)
				}
			case <-time.After(time.Minute):
				t.Error("it does not return")
			}
		})
	}
}

// A sandbox whose engine returns with another API version ends by its own reason, and not because the engine refuses the old version.
func TestResumeOnAReplacedEngine(t *testing.T) {
	var version atomic.Value
	version.Store("1.41")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Api-Version", version.Load().(string))
		switch path := q.URL.Path; {
		case path == "/_ping":
		case !strings.HasPrefix(path, "/v"+version.Load().(string)+"/"):
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"message": "client version is too old"}`)
		case strings.HasSuffix(path, "/json"):
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"Id": "c1", "State": {"Running": false, "ExitCode": 7}}`)
		default:
			fmt.Fprint(w, "{}")
		}
	}))
	t.Cleanup(server.Close)
	r := connected(t, "tcp://"+server.Listener.Addr().String(), 3*time.Second)
	if _, err := r.engine.ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	version.Store("1.44")
	_, exit := r.sandbox("s", "c1", true, 1).resume()
	if exit == nil || !strings.Contains(exit.Detail, "status 7") {
		t.Errorf("%+v", exit)
	}
}
