//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar/test/tier"
)

// idleMemory limits the memory of each idle session, with its share of the server.
const idleMemory = 4 << 20

// TestIdleSessions opens many sessions, restarts the server under them, and closes them by a prefix of their scopes. It opens 40,
// or BELLJAR_IDLE_SESSIONS, and then also measures their cost to an idle server.
func TestIdleSessions(t *testing.T) {
	t.Parallel()
	n := tier.Pick(40, 100)
	text, measure := os.LookupEnv("BELLJAR_IDLE_SESSIONS")
	if measure {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	data := t.TempDir()
	args := []string{"--set", "quota_sessions=0", "--set", "max_sessions=5000", "--set", "reap_every_sec=5"}
	s := serve(t, data, args...)
	began := time.Now()
	next := make(chan int)
	var openers sync.WaitGroup
	for range 8 {
		openers.Go(func() {
			for i := range next {
				status, session := s.ask(http.MethodPost, api+"/sessions/open", map[string]any{
					"scope": map[string]any{"namespace": "workflow", "id": "idle", "key": strconv.Itoa(i)}, "startup_timeout_sec": 300,
				})
				if status/100 != 2 {
					t.Errorf("open %d: %d %v", i, status, session)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	openers.Wait()
	took := time.Since(began)
	groups, server := groupMemory(t, data), s.resident()
	t.Logf("%d sessions in %v, %.0f/s; %d MiB in cgroups and %d MiB in the server", n, took, float64(n)/took.Seconds(), groups>>20, server>>20)
	if took := groups + server; took > n*idleMemory+64<<20 {
		t.Errorf("%d sessions take %d MiB", n, took>>20)
	}
	if measure {
		used := s.processor()
		began = time.Now()
		time.Sleep(11 * time.Second)
		t.Logf("the server used %v in %v, with two looks of the reaper", s.processor()-used, time.Since(began))
	}

	s.kill()
	began = time.Now()
	s = serve(t, data, args...)
	t.Logf("ready again after %v", time.Since(began))
	_, list := s.ask(http.MethodGet, api+"/sessions?limit=1&key_prefix=workflow:idle:", nil)
	if list["total"] != float64(n) {
		t.Errorf("there are %v", list["total"])
	}
	for _, i := range []int{0, n / 2, n - 1} {
		_, session := s.ask(http.MethodPost, api+"/sessions/open", map[string]any{
			"scope": map[string]any{"namespace": "workflow", "id": "idle", "key": strconv.Itoa(i)},
		})
		status, answer := s.ask(http.MethodPost, api+"/sessions/"+fmt.Sprint(session["session_id"])+"/exec", map[string]any{"cmd": []string{"true"}})
		if session["created"] != false || status != http.StatusOK || answer["exit_code"] != 0.0 {
			t.Errorf("session %d: %v: %d %v", i, session, status, answer)
		}
	}
	t.Logf("after the restart %d MiB in cgroups and %d MiB in the server", groupMemory(t, data)>>20, s.resident()>>20)
	began = time.Now()
	_, answer := s.ask(http.MethodPost, api+"/sessions/close", map[string]any{"key_prefix": "workflow:idle:"})
	if closed, _ := answer["closed"].([]any); len(closed) != n {
		t.Errorf("closed are %d", len(closed))
	}
	t.Logf("all closed after %v", time.Since(began))
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
}

// groupMemory returns the memory charged to the cgroups of an installation's sandboxes, including the agents.
func groupMemory(t *testing.T, data string) (sum int) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(data, "installation"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range named("/sys/fs/cgroup", strings.TrimSpace(string(raw))) {
		for _, file := range []string{"memory.current", "memory.usage_in_bytes"} {
			list, _ := filepath.Glob(filepath.Join(dir, "*", file)) // the pattern is valid
			for _, path := range list {
				if text, err := os.ReadFile(path); err == nil {
					size, _ := strconv.Atoi(strings.TrimSpace(string(text)))
					sum += size
				}
			}
		}
	}
	return sum
}

// resident returns the server's resident memory, in bytes.
func (s *server) resident() int { return s.holdings(s.t).resident << 10 }

// processor returns the processor time that the server has used.
func (s *server) processor() time.Duration {
	s.t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}
