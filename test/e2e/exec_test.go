//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/tier"
)

// answered is an exec for which a client has received a response.
type answered struct {
	id, want string
	done     bool // its end was reported
	begun    bool // it was seen running; the server makes no promise about others
}

// TestExecsThroughKills kills a server while clients run short and longer commands in a session. The next server knows
// every exec that was answered before, with its complete output, once.
func TestExecsThroughKills(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := serve(t, data)
	_, made := s.ask(http.MethodPost, "/api/v1/sandbox/sessions", map[string]any{"spec_version": "1.0", "base_image": "host"})
	session := "/api/v1/sandbox/sessions/" + made["session_id"].(string)
	var all []answered
	for round := range tier.Rounds(t, 2, 4) {
		var mu sync.Mutex
		var clients sync.WaitGroup
		before := len(all)
		some := func() bool { mu.Lock(); defer mu.Unlock(); return len(all) >= before+8 }
		for client := range 4 {
			clients.Go(func() {
				for n := 0; ; n++ {
					word := fmt.Sprintf("%d-%d-%d", round, client, n)
					body := map[string]any{"cmd": []string{"sh", "-c", "echo " + word + "; sleep 0.3; echo end"}, "wait_seconds": 0.05}
					want := word + "\nend\n"
					if n%4 > 0 {
						body, want = map[string]any{"cmd": []string{"sh", "-c", "printf '%s' " + word + "; printf err >&2"}}, word
					}
					if n%4 == 2 { // too long to be stored with its run
						body, want = map[string]any{"cmd": []string{"sh", "-c", "head -c 9000 /dev/zero | tr '\\0' x"}}, strings.Repeat("x", 9000)
					}
					status, got, err := s.try(http.MethodPost, session+"/exec", body)
					if err != nil {
						return // the server is dead
					}
					if status != http.StatusOK {
						t.Errorf("exec answers %d: %v", status, got)
						return
					}
					a := answered{id: got["exec_id"].(string), want: want, done: got["status"] == "completed"}
					if a.begun = a.done; !a.done {
						run, wrong := s.run(a.id) // the server may die before it responds
						a.begun = wrong == "" && run["started_at"] != nil
					}
					if a.done && got["stdout"] != want {
						t.Errorf("exec printed %q, want %q", got["stdout"], want)
					}
					mu.Lock()
					all = append(all, a)
					mu.Unlock()
				}
			})
		}
		until(t, "some execs are answered", some)
		time.Sleep(rand.N(300 * time.Millisecond))
		s.kill()
		clients.Wait()
		s = serve(t, data)
		checkAnswered(t, s, session, all)
	}
	t.Logf("%d execs were answered", len(all))
	s.ask(http.MethodDelete, session, nil)
	if code := s.stop(); code != 0 {
		t.Errorf("the server ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
}

// checkAnswered checks every answered exec.
func checkAnswered(t *testing.T, s *server, session string, all []answered) {
	t.Helper()
	for _, a := range all {
		status, got := s.ask(http.MethodPost, session+"/exec/"+a.id+"/wait", map[string]any{"timeout_seconds": 100})
		if !a.begun && status == http.StatusOK && got["reason_code"] == string(belljar.ReasonNodeLost) {
			continue
		}
		if status != http.StatusOK || got["done"] != true || got["exit_code"] != 0.0 {
			t.Errorf("exec that was answered: %d %v", status, got)
			continue
		}
		stdout := ""
		for since := 0.0; ; {
			_, part := s.ask(http.MethodGet, fmt.Sprintf("%s/exec/%s?since_seq=%.0f", session, a.id, since), nil)
			for _, each := range part["chunks"].([]any) {
				if c := each.(map[string]any); c["stream"] == "stdout" {
					stdout += c["text"].(string)
				}
			}
			since = part["next_seq"].(float64)
			if part["done"] == true {
				if part["truncated"] == true {
					t.Errorf("the log of exec %s lacks something", a.id)
				}
				break
			}
		}
		if stdout != a.want {
			t.Errorf("exec %s printed %.60q, want %.60q", a.id, stdout, a.want)
		}
	}
}
