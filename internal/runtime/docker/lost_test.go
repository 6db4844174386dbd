package docker

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/runtime"
)

// A sandbox whose engine has been given up is not waited for once more: the engine is asked once, and what is left there is
// removed when it is back.
func TestDestroyOnALostEngine(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodDelete {
			asked.Add(1)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	r, err := New(Options{
		Host: "tcp://" + server.Listener.Addr().String(), Patience: time.Hour,
		Agent: func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("agent")), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	s := r.sandbox("s", "c1", true, 1)
	s.End(runtime.Exit{Reason: runtime.ExitEngineGone})
	if err := s.Destroy(t.Context()); err == nil {
		t.Error("a sandbox was destroyed on an engine that is away")
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the engine was asked %d times", n)
	}
}
