//go:build linux

package e2e

import (
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestStop asks a server to end while runs are under way and others wait. The first come to their end, those that wait
// are left to the next server, nothing new begins, and who follows a run sees how it ends.
func TestStop(t *testing.T) {
	data := t.TempDir()
	s := serve(t, data, "--set", "max_concurrent_runs=2")
	_, session := s.ask(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.0", "base_image": "host"})
	sessionID, _ := session["session_id"].(string)
	gated := oneShot("echo up; while [ ! -e go ]; do sleep 0.01; done; echo over")
	gated["session_id"] = sessionID
	delete(gated, "base_image")
	_, first := s.ask(http.MethodPost, api+"/runs", gated)
	_, second := s.ask(http.MethodPost, api+"/runs", oneShot("echo up; sleep 1; echo over"))
	_, waits := s.ask(http.MethodPost, api+"/runs", oneShot("echo later"))
	if waits["phase"] != "queued" {
		t.Fatalf("the third run: %v", waits)
	}
	up := make(chan struct{}, 2)
	var followers sync.WaitGroup
	for _, run := range []map[string]any{first, second} {
		followers.Go(func() {
			told := false
			frames, err := s.frames(api+"/runs/"+run["id"].(string)+"/logs?format=json&follow=true", func(f map[string]any) {
				if f["type"] == "stdout" && !told {
					told = true
					up <- struct{}{}
				}
			})
			if err != nil || len(frames) == 0 {
				t.Errorf("a follower: %v, after %v", err, frames)
				return
			}
			last := frames[len(frames)-1]
			if outcome, _ := last["data"].(map[string]any); last["event"] != "end" || outcome["phase"] != "completed" {
				t.Errorf("a follower saw at last %v", last)
			}
		})
	}
	<-up
	<-up

	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until(t, "new runs are refused", func() bool {
		status, answer := s.ask(http.MethodPost, api+"/runs", oneShot("true"))
		return status == http.StatusServiceUnavailable && answer["error"] != nil
	})
	req, err := http.NewRequest(http.MethodPost, s.URL+api+"/sessions", strings.NewReader(`{"spec_version":"1.0","base_image":"host"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", s.Key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a session: %d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
	if status, run := s.ask(http.MethodGet, api+"/runs/"+first["id"].(string), nil); status != http.StatusOK || run["phase"] != "running" {
		t.Errorf("the run under way: %d %v", status, run)
	}
	status, answer := s.ask(http.MethodPost, api+"/sessions/"+sessionID+"/files?path=go", strings.NewReader("x"), "Content-Type: application/octet-stream")
	if status != http.StatusOK {
		t.Errorf("upload into the session under way: %d %v", status, answer)
	}
	followers.Wait()
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.said)
	}
	nothingLeft(t, data)

	next := serve(t, data)
	if p := (&promise{id: waits["id"].(string), output: "later\n"}); p.check(next) != "" {
		t.Errorf("the run that waited: %s", p.check(next))
	}
	for _, run := range []map[string]any{first, second} {
		p := &promise{id: run["id"].(string), output: "up\nover\n", ended: true}
		if wrong := p.check(next); wrong != "" {
			t.Errorf("a run that was under way: %s", wrong)
		}
	}
	if _, session := next.ask(http.MethodGet, api+"/sessions/"+sessionID, nil); session["state"] != "lost" || session["message"] == "" {
		t.Errorf("the session: %v", session)
	}
	if code := next.stop(); code != 0 {
		t.Errorf("the next one ended with %d\n%s", code, next.said)
	}
}

// TestStopAtOnce asks twice: what is under way is cancelled, and says so.
func TestStopAtOnce(t *testing.T) {
	data := t.TempDir()
	s := serve(t, data, "--set", "cancel_grace_seconds=0.5")
	_, run := s.ask(http.MethodPost, api+"/runs", oneShot("trap '' TERM; echo up; while true; do sleep 0.1; done"))
	id, _ := run["id"].(string)
	begun, ended := make(chan struct{}), make(chan map[string]any, 1)
	go func() {
		var once sync.Once
		frames, _ := s.frames(api+"/runs/"+id+"/logs?format=json&follow=true", func(f map[string]any) {
			if f["type"] == "stdout" {
				once.Do(func() { close(begun) })
			}
		})
		ended <- frames[len(frames)-1]
	}()
	<-begun
	began := time.Now()
	for range 2 {
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		until(t, "the signal is taken", func() bool {
			status, _, err := s.try(http.MethodPost, api+"/runs", oneShot("true"))
			return err != nil || status == http.StatusServiceUnavailable
		})
	}
	if last := <-ended; last["event"] != "end" || last["data"].(map[string]any)["phase"] != "killed" {
		t.Errorf("the follower saw at last %v", last)
	}
	<-s.done
	if code, took := s.cmd.ProcessState.ExitCode(), time.Since(began); code != 0 || took > 20*time.Second {
		t.Errorf("ended with %d after %v\n%s", code, took, s.said)
	}
	nothingLeft(t, data)
	next := serve(t, data)
	if _, run := next.ask(http.MethodGet, api+"/runs/"+id, nil); run["phase"] != "killed" || !strings.Contains(run["message"].(string), "shutting down") {
		t.Errorf("the run: %v", run)
	}
	next.stop()
}
