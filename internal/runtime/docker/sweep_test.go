package docker

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// An image may have any label, and its containers inherit it. They do not count as Belljar's remains.
func TestSweepSparesLabelsOfImages(t *testing.T) {
	var removed []string
	r := answered(t, func(w http.ResponseWriter, q *http.Request) {
		switch {
		case q.Method == http.MethodDelete:
			removed = append(removed, q.URL.Path[strings.LastIndex(q.URL.Path, "/")+1:])
		case strings.HasSuffix(q.URL.Path, "/containers/json") && strings.Contains(q.URL.Query().Get("filters"), labelAgent):
			io.WriteString(w, `[{"Id":"fill","Created":1,"State":"created"},{"Id":"sandbox","Created":1,"State":"running"},{"Id":"other","Created":1,"State":"exited"}]`)
		case strings.HasSuffix(q.URL.Path, "/containers/json"):
			io.WriteString(w, "[]")
		}
	})
	if _, err := r.Sweep(t.Context()); err != nil || !slices.Equal(removed, []string{"fill"}) {
		t.Errorf("removed %v, %v", removed, err)
	}
}
