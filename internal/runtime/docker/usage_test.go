package docker

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/belljar/belljar/internal/runtime"
)

// The CPU time of a container that died is unknown, also if it was read before. Peaks stay.
func TestUsageOfADeadContainer(t *testing.T) {
	var ended atomic.Bool
	r := answered(t, func(w http.ResponseWriter, q *http.Request) {
		switch {
		case !strings.HasSuffix(q.URL.Path, "/stats"):
			w.WriteHeader(http.StatusForbidden)
		case ended.Load():
			fmt.Fprint(w, `{}`)
		default:
			fmt.Fprint(w, `{"read": "2026-01-02T03:04:05Z", "cpu_stats": {"cpu_usage": {"total_usage": 1000000}}, "memory_stats": {"usage": 1000, "max_usage": 2000}}`)
		}
	})
	s := r.sandbox("s", "c1", true, 1)
	if u, err := s.Usage(t.Context()); err != nil || u.CPU == nil || u.Sources["cpu"] == "" {
		t.Fatalf("%+v, %v", u, err)
	}
	ended.Store(true)
	check := func(when string, want error) {
		u, err := s.Usage(t.Context())
		if !errors.Is(err, want) || u.CPU != nil || u.Sources["cpu"] != "" || u.PeakMemory == nil || *u.PeakMemory != 2000 {
			t.Errorf("%s: %+v, %v", when, u, err)
		}
	}
	check("before its end is known", errNoFigures)
	s.End(runtime.Exit{Reason: runtime.ExitKilled})
	check("after it", runtime.ErrGone)
}
