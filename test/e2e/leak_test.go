//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar/test/tier"
)

// TestServerLeaksNothing makes a server do much work and checks its resources: many runs later it has no more descriptors,
// threads, goroutines and memory than after some runs.
func TestServerLeaksNothing(t *testing.T) {
	runs := tier.Rounds(t, 24, 1000)
	data := t.TempDir()
	s := serve(t, data)
	work := func(n, every int) { // each client makes a session every so many runs
		var clients sync.WaitGroup
		for client := range 4 {
			clients.Go(func() {
				for i := range n / 4 {
					body := oneShot("echo hello; mkdir out; echo x >out/a")
					body["capture_patterns"] = []string{"out/*"}
					status, run, err := s.try(http.MethodPost, api+"/runs?wait=600s", body)
					if err != nil || status != http.StatusOK || run["phase"] != "completed" {
						t.Errorf("client %d run %d: %d %v, %v", client, i, status, run, err)
						return
					}
					if _, err := s.frames(api+"/runs/"+run["id"].(string)+"/logs?format=json&follow=true", nil); err != nil {
						t.Error(err)
					}
					if i%every == 0 {
						_, session, _ := s.try(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.0", "base_image": "host"})
						id, _ := session["session_id"].(string)
						if status, answer, err := s.try(http.MethodDelete, api+"/sessions/"+id, nil); status != http.StatusNoContent {
							t.Errorf("a session: %v %d %v, %v", session, status, answer, err)
						}
					}
				}
			})
		}
		clients.Wait()
	}
	work(max(40, runs/5), 20) // until everything has reached its full size
	s.full()
	before := s.holdings(t)
	work(runs, 2)
	s.full()
	// Concurrent work may open the database once more, which stays. A leak for each of 24 runs or 12 sessions would be larger.
	const tolerated = 8
	var after holdings
	begun := time.Now()
	for after = s.holdings(t); after.descriptors > before.descriptors+tolerated || after.goroutines > before.goroutines+tolerated; after = s.holdings(t) {
		if time.Since(begun) > patience {
			t.Errorf("%+v was held, and is %+v: %s", before, after, s.opened())
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("after the first: %+v, after %d more: %+v", before, runs, after)
	if after.resident > before.resident*5/4+16<<10 {
		t.Errorf("%d KiB were resident, and are %d", before.resident, after.resident)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
}

// opened lists what a server has open.
func (s *server) opened() (list []string) {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.cmd.Process.Pid)) // the pattern is valid
	for _, link := range links {
		to, _ := os.Readlink(link) // it may have been closed
		list = append(list, to)
	}
	slices.Sort(list)
	return list
}

// holdings are the resources of a server's process.
type holdings struct {
	descriptors, threads, goroutines, resident int // resident in KiB
}

func (s *server) holdings(t *testing.T) (h holdings) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections()
	proc := fmt.Sprintf("/proc/%d", s.cmd.Process.Pid)
	open, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	h.descriptors = len(open)
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "Threads: %d", &h.threads)
		_, _ = fmt.Sscanf(line, "VmRSS: %d", &h.resident)
	}
	for line := range strings.Lines(s.text("/metrics")) {
		var n float64
		if _, err := fmt.Sscanf(line, "go_goroutines %g", &n); err == nil {
			h.goroutines = int(n)
		}
	}
	return h
}
