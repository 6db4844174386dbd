//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"
)

// rounds of killing; the issue of a lost record shows in few of many.
const rounds = 100

// acknowledged is what the server has said of a run before it was killed.
type acknowledged struct {
	id     string
	marker string
	ended  bool // the answer had the finished run
}

// TestKill kills a busy server again and again, at any moment, and checks each time that what it had said is true: runs that
// were accepted are known, runs that were finished are finished with their output, and nothing is under way that is not.
func TestKill(t *testing.T) {
	data := t.TempDir()
	var known []acknowledged
	for round := range rounds {
		s := serve(t, data, "--set", "max_concurrent_runs=3")
		for _, a := range known {
			verify(t, s, round, a)
		}
		if t.Failed() {
			return
		}
		known = harass(s, round)
		s.kill()
	}
	s := serve(t, data)
	for _, a := range known {
		verify(t, s, rounds, a)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("the last server ended with %d\n%s", code, s.said)
	}
}

// harass starts runs of several kinds until, at a random moment, it is time to kill, and returns what was acknowledged.
func harass(s *server, round int) []acknowledged {
	stop := make(chan struct{})
	var mu sync.Mutex
	var known []acknowledged
	var clients sync.WaitGroup
	for client := range 4 {
		clients.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				marker := fmt.Sprintf("round %d client %d run %d", round, client, i)
				path, line := api+"/runs?wait=20s", "echo "+marker
				if client == 3 { // it is under way when the end comes
					path, line = api+"/runs", "echo "+marker+"; exec sleep 30"
				}
				status, run, err := s.try(http.MethodPost, path, oneShot(line))
				if err != nil {
					return // killed
				}
				if status != http.StatusOK && status != http.StatusAccepted {
					if status != http.StatusTooManyRequests {
						s.t.Errorf("start: %d %v", status, run)
					}
					return
				}
				id, _ := run["id"].(string)
				mu.Lock()
				known = append(known, acknowledged{id, marker, run["phase"] == "completed"})
				mu.Unlock()
				if client == 3 {
					return
				}
			}
		})
	}
	timer := time.NewTimer(time.Duration(rand.IntN(200)) * time.Millisecond)
	<-timer.C
	s.kill()
	close(stop)
	clients.Wait()
	return known
}

// verify checks that a server knows what one before it has said.
func verify(t *testing.T, s *server, round int, a acknowledged) {
	t.Helper()
	status, run := s.ask(http.MethodGet, api+"/runs/"+a.id, nil)
	if status != http.StatusOK {
		t.Errorf("round %d: %q was accepted and is gone: %d %v", round, a.marker, status, run)
		return
	}
	phase, reason := run["phase"], run["reason_code"]
	switch {
	case a.ended && phase != "completed":
		t.Errorf("round %d: %q had completed and is %v", round, a.marker, phase)
	case phase == "failed" && reason != "node_lost", phase == "killed", phase == "timed_out":
		t.Errorf("round %d: %q ended as %v, %v", round, a.marker, phase, reason)
	case phase == "completed":
		if log := s.text(api + "/runs/" + a.id + "/logs"); log != a.marker+"\n" {
			t.Errorf("round %d: the log of %q is %q", round, a.marker, log)
		}
	}
}
