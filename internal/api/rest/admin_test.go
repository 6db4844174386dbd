package rest_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/rest"
	"github.com/belljar/belljar/internal/event"
)

// The fields of docs/compatibility.md#administration are present in the list and in a single run, null if unset.
func TestPlainAdminRunFields(t *testing.T) {
	b := newBench(t).withArtifacts(nil)
	b.world.runs["run-2"] = belljar.Run{ID: "run-2", UserID: "alice", Phase: belljar.PhaseFailed, Message: "why", ImageDigest: "sha256:1"}
	var page struct {
		Items []map[string]any `json:"items"`
	}
	if err := json.Unmarshal(b.get(prefix+"/admin/runs", "root"), &page); err != nil || len(page.Items) != 2 {
		t.Fatalf("%v, %d runs", err, len(page.Items))
	}
	for _, listed := range page.Items {
		id, _ := listed["id"].(string)
		var alone map[string]any
		if err := json.Unmarshal(b.get(prefix+"/admin/runs/"+id, "root"), &alone); err != nil {
			t.Fatal(err)
		}
		message, digest := map[string]any{"run-1": nil, "run-2": "why"}[id], map[string]any{"run-1": nil, "run-2": "sha256:1"}[id]
		for _, run := range []map[string]any{listed, alone} {
			for _, name := range []string{"id", "user_id", "spec_version", "runtime", "phase", "exit_code", "started_at", "finished_at"} {
				if _, ok := run[name]; !ok {
					t.Errorf("%s has no %s", id, name)
				}
			}
			if got, ok := run["message"]; !ok || got != message {
				t.Errorf("%s: message %v, want %v", id, got, message)
			}
			if got, ok := run["image_digest"]; !ok || got != digest {
				t.Errorf("%s: image_digest %v, want %v", id, got, digest)
			}
		}
	}
}

// denials records events.
type denials struct{ got []event.Event }

func (d *denials) Record(e event.Event) { d.got = append(d.got, e) }

// TestDeniedAdmin: a refused request for a route of operators is an event.
func TestDeniedAdmin(t *testing.T) {
	seen := &denials{}
	b := newBench(t, func(o *rest.Options, _ *api.EdgeOptions) { o.Events = seen })
	for _, path := range []string{prefix + "/admin/runs", "/metrics"} {
		seen.got = nil
		resp := b.send("GET", path, "alice", nil, "")
		read(t, resp)
		if resp.StatusCode != http.StatusForbidden || len(seen.got) != 1 {
			t.Fatalf("%s answers %d with events %+v", path, resp.StatusCode, seen.got)
		}
		if e := seen.got[0]; e.Name != event.Denied || e.Caller.ID != "alice" || e.Component != "rest" || e.Reason != "forbidden" || e.Err == nil {
			t.Errorf("%s: %+v", path, e)
		}
		read(t, b.send("GET", path, "root", nil, ""))
		if len(seen.got) != 1 {
			t.Errorf("%s of an operator: %+v", path, seen.got)
		}
	}
}
