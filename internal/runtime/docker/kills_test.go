package docker

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// The events of an engine elsewhere count the processes that were killed for lack of memory, each once. An engine that refuses them
// keeps the last figure.
func TestOOMKillsOfAnEngineElsewhere(t *testing.T) {
	const read = 1_767_323_045 // seconds of the engine's clock
	var kills, refused atomic.Int64
	r := answered(t, func(w http.ResponseWriter, q *http.Request) {
		switch {
		case strings.HasSuffix(q.URL.Path, "/stats"):
			fmt.Fprint(w, `{"read": "2026-01-02T03:04:05Z", "memory_stats": {"usage": 1000}}`)
		case !strings.HasSuffix(q.URL.Path, "/events") || refused.Load() > 0:
			w.WriteHeader(http.StatusForbidden)
		default:
			since, err := strconv.ParseFloat(q.FormValue("since"), 64)
			if until := q.FormValue("until"); err != nil || until != fmt.Sprintf("%d.100000000", read) {
				t.Errorf("events since %q until %q", q.FormValue("since"), until)
			}
			if filters := q.FormValue("filters"); !strings.Contains(filters, `"oom"`) || !strings.Contains(filters, `"c1"`) {
				t.Errorf("filters %s", filters)
			}
			for i := range kills.Load() {
				if at := read - 10 + i; float64(at) >= since {
					fmt.Fprintf(w, `{"Type": "container", "Action": "oom", "timeNano": %d000000000}`, at)
				}
			}
		}
	})
	s := r.sandbox("s", "c1", true, 1)
	for _, c := range []struct{ kills, refused, want int64 }{{0, 1, -1}, {0, 0, 0}, {1, 0, 1}, {1, 0, 1}, {3, 0, 3}, {4, 1, 3}, {4, 0, 4}} {
		kills.Store(c.kills)
		refused.Store(c.refused)
		u, err := s.Usage(t.Context())
		got := int64(-1)
		if u.OOMKills != nil {
			got = *u.OOMKills
		}
		if err != nil || got != c.want || (u.Sources["oom_kills"] != "") != (got >= 0) || u.LimitHits != nil {
			t.Errorf("%+v: %d, %+v, %v", c, got, u, err)
		}
	}
}
