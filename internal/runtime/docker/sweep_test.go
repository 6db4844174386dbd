package docker

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
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

// The remains of dead installations and of killed fills are removed. Whatever may belong to a living server stays, and so does a
// container with a label of its image.
func TestSweepOthers(t *testing.T) {
	old, now := "2020-01-02T03:04:05.6Z", time.Now().UTC().Format(time.RFC3339Nano)
	states := map[string]string{ // by id: status, created, finished
		"exited": "exited " + old + " " + old, "dead": "dead " + old + " " + old, "half-made": "created " + old + " 0001-01-01T00:00:00Z",
		"just-exited": "exited " + old + " " + now, "being-made": "created " + now + " 0001-01-01T00:00:00Z", "no-time": "exited " + old + " 0001-01-01T00:00:00Z",
		"started-meanwhile": "running " + old + " " + old, "ours": "exited " + old + " " + old, "named": "exited " + old + " " + old,
		"unnamed": "exited " + old + " " + old,
	}
	var removed []string
	r := answered(t, func(w http.ResponseWriter, q *http.Request) {
		id, filters := path.Base(strings.TrimSuffix(q.URL.Path, "/json")), q.FormValue("filters")
		switch {
		case q.Method == http.MethodDelete:
			removed = append(removed, id)
		case strings.HasSuffix(q.URL.Path, "/containers/json") && strings.Contains(filters, labelAgent):
			io.WriteString(w, `[{"Id":"fill","Created":1,"State":"created"}]`)
		case strings.HasSuffix(q.URL.Path, "/containers/json"):
			if !strings.Contains(filters, `"exited"`) || strings.Contains(filters, "running") {
				t.Errorf("filters %s", filters)
			}
			var list []container.Summary
			for id := range states {
				other, name := "gone", "/belljar-gone-"+id
				switch id {
				case "ours":
					other, name = "cli", "/belljar-cli-"+id
				case "named":
					name = "/another"
				case "unnamed":
					other = "../x"
				}
				list = append(list, container.Summary{ID: id, Names: []string{name}, Labels: map[string]string{labelInstallation: other}})
			}
			json.NewEncoder(w).Encode(list)
		case states[id] != "":
			f := strings.Fields(states[id])
			fmt.Fprintf(w, `{"Id": %q, "Created": %q, "State": {"Status": %q, "FinishedAt": %q}}`, id, f[1], f[0], f[2])
		default:
			io.WriteString(w, "{}")
		}
	})
	n, err := r.SweepOthers(t.Context())
	slices.Sort(removed)
	if want := []string{"dead", "exited", "fill", "half-made"}; err != nil || n != 3 || !slices.Equal(removed, want) {
		t.Errorf("%d, removed %v, %v", n, removed, err)
	}
}

// A server without an engine logs nothing about what it cannot sweep.
func TestSweepOthersWithoutAnEngine(t *testing.T) {
	r := connected(t, "unix://"+filepath.Join(t.TempDir(), "none.sock"), time.Minute)
	if n, err := r.SweepOthers(t.Context()); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
