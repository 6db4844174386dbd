//go:build linux

package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar/test/tier"
)

// figure returns one of the pool's metrics.
func (s *server) figure(name string) int {
	s.t.Helper()
	m := regexp.MustCompile(`(?m)^sandbox_pool_` + regexp.QuoteMeta(name) + ` (\d+)$`).FindStringSubmatch(s.text("/metrics"))
	if m == nil {
		s.t.Fatalf("no figure %s", name)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

const (
	poolSize  = `size{runtime="native"}`
	poolReady = `available{runtime="native"}`
	poolHits  = `claims_total{result="hit",runtime="native"}`
)

// full waits until the pool is full.
func (s *server) full() {
	s.t.Helper()
	until(s.t, "the pool is full", func() bool { return s.figure(poolReady) > 0 && s.figure(poolReady) == s.figure(poolSize) })
}

// readyGroups returns the cgroups of sandboxes from the pool, claimed or not.
func readyGroups(t *testing.T, data string) map[string]bool {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(data, "installation"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, dir := range named("/sys/fs/cgroup", strings.TrimSpace(string(raw))) {
		list, _ := filepath.Glob(filepath.Join(dir, "*", "pool-*")) // the pattern is valid
		for _, path := range list {
			found[filepath.Base(path)] = true
		}
	}
	return found
}

// TestPool takes runs and sessions from ready sandboxes, kills the server and starts the next one: sessions continue in their
// sandboxes, unused ready sandboxes are gone, and there are new ones.
func TestPool(t *testing.T) {
	data := t.TempDir()
	s := serve(t, data, "--set", "pool_size=3")
	s.full()
	_, session := s.ask(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.0", "base_image": "host", "workspace_exec": true})
	inSession := oneShot("echo mine >>kept; cat kept")
	inSession["session_id"] = session["session_id"]
	delete(inSession, "base_image")
	for _, request := range []map[string]any{inSession, oneShot("true")} {
		if _, run := s.ask(http.MethodPost, api+"/runs?wait=true", request); run["phase"] != "completed" {
			t.Errorf("a run: %v", run)
		}
	}
	if hits := s.figure(poolHits); hits != 2 {
		t.Errorf("%d sandboxes were ready, want the session's and the run's", hits)
	}
	s.full()
	before := readyGroups(t, data)
	s.kill()

	s = serve(t, data, "--set", "pool_size=3")
	s.full()
	_, run := s.ask(http.MethodPost, api+"/runs?wait=true", inSession)
	if run["phase"] != "completed" || !strings.Contains(s.text(api+"/runs/"+run["id"].(string)+"/logs?format=text"), "mine\nmine\n") {
		t.Errorf("a run in the session that was there before: %v", run)
	}
	until(t, "what was ready before is gone, but for the session's", func() bool {
		left := 0
		for name := range readyGroups(t, data) {
			if before[name] {
				left++
			}
		}
		return left == 1
	})
	if status, answer := s.ask(http.MethodDelete, api+"/sessions/"+session["session_id"].(string), nil); status >= 300 {
		t.Errorf("%d %v", status, answer)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
}

// TestPoolBurst requests many sessions concurrently, a few of which are ready.
func TestPoolBurst(t *testing.T) {
	data := t.TempDir()
	s := serve(t, data, "--set", "pool_size=4")
	s.full()
	var all sync.WaitGroup
	for range tier.Pick(40, 100) {
		all.Go(func() {
			status, session, err := s.try(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.0", "base_image": "host", "startup_timeout_sec": 300})
			if err != nil || status >= 300 {
				t.Errorf("%d %v %v", status, session, err)
				return
			}
			if status, answer, err := s.try(http.MethodDelete, api+"/sessions/"+session["session_id"].(string), nil); err != nil || status >= 300 {
				t.Errorf("%d %v %v", status, answer, err)
			}
		})
	}
	all.Wait()
	s.full()
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
}
