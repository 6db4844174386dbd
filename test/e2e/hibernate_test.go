//go:build linux

package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/linux/rundir"
	"github.com/belljar/belljar/test/tier"
)

// sessionOf makes a session.
func (s *server) sessionOf(more map[string]any) string {
	s.t.Helper()
	body := map[string]any{"spec_version": "1.1", "base_image": "host"}
	maps.Copy(body, more)
	status, made := s.ask(http.MethodPost, api+"/sessions", body)
	id, _ := made["session_id"].(string)
	if status/100 != 2 || id == "" {
		s.t.Fatalf("create: %d %v", status, made)
	}
	return id
}

// shell runs a command in a session's shell.
func (s *server) shell(id, cmd string) string {
	s.t.Helper()
	status, answer := s.ask(http.MethodPost, api+"/sessions/"+id+"/shell", map[string]any{"cmd": cmd, "separate": true})
	if status != http.StatusOK {
		s.t.Fatalf("%s: %d %v", cmd, status, answer)
	}
	if code, _ := answer["exit_code"].(float64); code != 0 {
		s.t.Fatalf("%s: %v", cmd, answer)
	}
	out, _ := answer["stdout"].(string)
	return out
}

// stateOf waits until a session has a state.
func (s *server) stateOf(id, want string) map[string]any {
	s.t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		_, session := s.ask(http.MethodGet, api+"/sessions/"+id, nil)
		if session["state"] == want {
			return session
		}
		if time.Now().After(until) {
			s.t.Fatalf("session is %v, want %s", session, want)
		}
	}
}

// TestHibernate makes sessions hibernate and wake, with a server that is killed in between, on each runtime. Everything returns: files with
// their checksums, the shell, scope and network.
func TestHibernate(t *testing.T) {
	t.Parallel()
	for _, l := range lanes()[:2] {
		t.Run(l.runtime, func(t *testing.T) {
			t.Parallel()
			data, flags := t.TempDir(), append(l.open(t), "--set", "max_concurrent_runs=4")
			s := serve(t, data, flags...)
			id := s.sessionOf(map[string]any{
				"network_policy": "deny_all", "env": map[string]any{"OWN": "of the session"}, "scope": map[string]any{"namespace": "workflow", "id": "1", "key": "a"},
			})
			s.shell(id, `mkdir -p work/a; cd work; for i in $(seq 50); do head -c $((i * 300)) /dev/urandom >a/$i; done; ln a/1 hard; ln -s a/2 link; truncate -s 2M hole; chmod 711 a
				find . -type f -print0 | sort -z | xargs -0 sha256sum >../sums; word='a  b'; export GREETING=hello; greet() { echo "$GREETING $1"; }`)
			check := func(when string) {
				t.Helper()
				got := s.shell(id, `sha256sum --quiet -c ../sums && greet "$word" && echo $OWN && pwd && stat -c '%a %h' a hard && readlink link`)
				if want := "hello a  b\nof the session\n/workspace/work\n711 2\n644 2\na/2\n"; got != want {
					t.Errorf("%s: %q, want %q", when, got, want)
				}
			}
			hibernate := func() {
				t.Helper()
				status, session := s.ask(http.MethodPost, api+"/sessions/"+id+"/hibernate", nil)
				if status != http.StatusOK || session["state"] != "hibernated" {
					t.Fatalf("%d %v", status, session)
				}
			}
			for warm := false; !warm; { // a waiting interpreter does not keep a session awake
				status, run := s.ask(http.MethodPost, api+"/runs?wait=600s", map[string]any{"spec_version": "1.1", "session_id": id, "code": "print(6 * 7)", "language": "python"})
				if status/100 != 2 || run["stdout"] != "42\n" {
					t.Fatalf("%d %v", status, run)
				}
				warm = run["warm"] == true
			}
			var fastest time.Duration
			for range l.rounds(t) {
				hibernate()
				begun := time.Now()
				s.text(api + "/sessions/" + id + "/fs/raw?path=sums")
				if took := time.Since(begun); fastest == 0 || took < fastest {
					fastest = took
				}
				check("after a rest")
			}
			t.Logf("%s: woken within %v at best", l.runtime, fastest)
			before := s.stateOf(id, "active")

			// A process in the background keeps it awake.
			s.shell(id, "sleep 1000 & echo $! >../pid")
			if status, answer := s.ask(http.MethodPost, api+"/sessions/"+id+"/hibernate", nil); status != http.StatusConflict || !strings.Contains(fmt.Sprint(answer), "force") {
				t.Errorf("%d %v", status, answer)
			}
			s.shell(id, "kill $(cat ../pid); wait; true")
			hibernate()
			if status, answer := s.ask(http.MethodDelete, api+"/snapshots/"+id, nil); status != http.StatusConflict {
				t.Errorf("%d %v", status, answer)
			}
			s.kill()
			s = serve(t, data, append(flags, "--set", "hibernate_sec=1")...)
			after := s.stateOf(id, "hibernated")
			for _, field := range []string{"scope_key", "created_at", "expires_at", "limits", "policy_hash"} {
				if fmt.Sprint(after[field]) != fmt.Sprint(before[field]) && field != "expires_at" {
					t.Errorf("%s was %v, and is %v", field, before[field], after[field])
				}
			}
			check("after a kill")
			s.stateOf(id, "hibernated") // automatically
			check("after a rest of its own")
			if status, answer := s.ask(http.MethodDelete, api+"/sessions/"+id, nil); status/100 != 2 {
				t.Errorf("%d %v", status, answer)
			}
			until(t, "no snapshot is left", func() bool { // it may be hibernating again
				status, page := s.ask(http.MethodGet, api+"/snapshots", nil)
				return status == http.StatusOK && fmt.Sprint(page["items"]) == "[]"
			})
		})
	}
}

// rounds returns how often a session hibernates: a gVisor sandbox takes 30 times the processor time of a native one.
func (l lane) rounds(t *testing.T) int {
	if l.runtime == "gvisor" {
		return tier.Rounds(t, 1, 100)
	}
	return tier.Rounds(t, 1, 1000)
}

// TestHibernatedSessionsAreFree hibernates many sessions: each costs the server only its record, and no sandbox is left. An allowance below
// the number of sessions shows what each costs.
func TestHibernatedSessionsAreFree(t *testing.T) {
	t.Parallel()
	n := tier.Rounds(t, 6, 1000)
	allowed := min(n/2, 32) // the first figures may include goroutines of the start
	data := t.TempDir()
	s := serve(t, data, "--set", "quota_sessions=0", "--set", "max_sessions=2000", "--set", "pool_size=0", "--set", "snapshot_max_per_user=0")
	made := func() string {
		id := s.sessionOf(nil)
		s.shell(id, "echo text >file; x=1")
		if status, session := s.ask(http.MethodPost, api+"/sessions/"+id+"/hibernate", nil); status != http.StatusOK || session["state"] != "hibernated" {
			t.Fatalf("%d %v", status, session)
		}
		return id
	}
	made()
	before := s.holdings(t)
	var last string
	for range n {
		last = made()
	}
	installation, err := os.ReadFile(filepath.Join(data, "installation"))
	if err != nil {
		t.Fatal(err)
	}
	boxes := filepath.Join(rundir.Default(), "native", strings.TrimSpace(string(installation)))
	if left, err := os.ReadDir(boxes); err != nil || len(left) > 0 {
		t.Errorf("sandboxes left: %v, %v", left, err)
	}
	var after holdings
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(20 * time.Millisecond) { // connections end shortly after their request
		if after = s.holdings(t); after.goroutines-before.goroutines < allowed && after.descriptors-before.descriptors < allowed {
			break
		}
	}
	t.Logf("%d hibernated sessions: %d KiB more, %d goroutines more, %d descriptors more", n, after.resident-before.resident, after.goroutines-before.goroutines, after.descriptors-before.descriptors)
	if most := 64<<10 + 64*n; after.resident-before.resident > most || after.goroutines-before.goroutines >= allowed || after.descriptors-before.descriptors >= allowed {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if got := s.shell(last, "cat file; echo $x"); got != "text\n1\n" {
		t.Errorf("%q", got)
	}
}
