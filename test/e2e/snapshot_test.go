//go:build linux

package e2e

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/belljar/belljar/test/tier"
)

// TestSnapshotThroughKills kills a server while it saves, restores and removes snapshots. What is listed then is whole, and the session
// that was saved goes on.
func TestSnapshotThroughKills(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := serve(t, data)
	status, session := s.ask(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.1", "base_image": "host", "resources": map[string]any{"workspace_mb": 64}})
	id, _ := session["session_id"].(string)
	if status/100 != 2 {
		t.Fatalf("create: %d %v", status, session)
	}
	in := func(s *server, id, script string) string {
		t.Helper()
		body := map[string]any{"spec_version": "1.1", "session_id": id, "command": []string{"sh", "-c", script}, "timeout_sec": longTime}
		status, run := s.ask(http.MethodPost, api+"/runs?wait=300s", body)
		if status != http.StatusOK || run["phase"] != "completed" {
			t.Fatalf("%s: %d %v", script, status, run)
		}
		out, _ := run["stdout"].(string)
		return out
	}
	in(s, id, "for i in $(seq 300); do head -c 20000 /dev/urandom >f$i; done; cat f* | sha256sum >sum")
	for round := range tier.Rounds(t, 2, 40) {
		in(s, id, fmt.Sprintf("echo %d >round", round))
		done := make(chan struct{})
		go func(s *server) {
			defer close(done)
			for { // until it is killed
				_, made, err := s.try(http.MethodPost, api+"/sessions/"+id+"/snapshots", map[string]any{})
				if err != nil {
					return
				}
				body := map[string]any{"spec_version": "1.1", "base_image": "host", "snapshot": made["snapshot_id"], "resources": map[string]any{"workspace_mb": 64}}
				if _, copied, err := s.try(http.MethodPost, api+"/sessions", body); err == nil {
					_, _, _ = s.try(http.MethodDelete, api+"/sessions/"+fmt.Sprint(copied["session_id"]), nil)
				}
				if round%2 == 1 {
					_, _, _ = s.try(http.MethodDelete, api+"/snapshots/"+fmt.Sprint(made["snapshot_id"]), nil)
				}
			}
		}(s)
		time.Sleep(rand.N(250 * time.Millisecond))
		s.kill()
		<-done
		s = serve(t, data)
		status, page := s.ask(http.MethodGet, api+"/snapshots?limit=200", nil)
		list, _ := page["items"].([]any)
		if status != http.StatusOK {
			t.Fatalf("list: %d %v", status, page)
		}
		for _, item := range list {
			x, _ := item.(map[string]any)
			body, err := s.open(api + "/snapshots/" + fmt.Sprint(x["snapshot_id"]) + "/archive")
			if err != nil {
				t.Fatalf("round %d: %v: %v", round, x, err)
			}
			sum := sha256.New()
			_, err = io.Copy(sum, body)
			body.Close()
			if got := fmt.Sprintf("sha256:%x", sum.Sum(nil)); err != nil || got != x["digest"] {
				t.Errorf("round %d: %v is %s, %v", round, x, got, err)
			}
		}
		if got := in(s, id, "cat f* | sha256sum | cmp - sum && cat round"); got != fmt.Sprintf("%d\n", round) {
			t.Errorf("round %d: the session has %q", round, got)
		}
	}
	status, made := s.ask(http.MethodPost, api+"/sessions/"+id+"/snapshots", map[string]any{})
	if status != http.StatusOK || made["consistent"] != true {
		t.Fatalf("%d %v", status, made)
	}
	if left, _ := filepath.Glob(filepath.Join(data, "belljar-snapshot-*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
