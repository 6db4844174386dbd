//go:build linux

package e2e

import (
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar"
)

// TestStop stops a server while runs are active and others wait. Single runs finish, and a client that follows one sees its end. A
// session and its programs continue without the server, waiting runs are left to the next server, and no new run starts.
func TestStop(t *testing.T) {
	data := t.TempDir()
	s := serve(t, data, "--set", "max_concurrent_runs=2", "--set", longDrain)
	_, session := s.ask(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.0", "base_image": "host"})
	sessionID, _ := session["session_id"].(string)
	gated := oneShot("echo up; while [ ! -e go ]; do sleep 0.01; done; echo over")
	gated["session_id"], gated["timeout_sec"] = sessionID, longTime
	delete(gated, "base_image")
	_, stays := s.ask(http.MethodPost, api+"/runs", gated)
	talk := oneShot("echo up; read go; echo over")
	talk["spec_version"], talk["interactive"], talk["stdin_idle_timeout_sec"] = "1.1", true, longTime
	_, first := s.ask(http.MethodPost, api+"/runs", talk)
	_, second := s.ask(http.MethodPost, api+"/runs", talk)
	_, waits := s.ask(http.MethodPost, api+"/runs", oneShot("echo later"))
	if waits["phase"] != "queued" {
		t.Fatalf("the third run: %v", waits)
	}
	up := make(chan struct{}, 2)
	var followers sync.WaitGroup
	for _, run := range []map[string]any{first, second} {
		followers.Go(func() {
			reported := false
			frames, err := s.frames(api+"/runs/"+run["id"].(string)+"/logs?format=json&follow=true", func(f map[string]any) {
				if f["type"] == "stdout" && !reported {
					reported = true
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
	var inputs []belljar.Stdin
	for _, run := range []map[string]any{first, second} {
		in, err := s.client().Runs().Stdin(t.Context(), run["id"].(string))
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		inputs = append(inputs, in)
	}
	until(t, "the session's run is under way", func() bool {
		text, err := s.get(api + "/runs/" + stays["id"].(string) + "/logs")
		return err == nil && text == "up\n"
	})

	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	until(t, "new runs are refused", func() bool {
		status, answer := s.ask(http.MethodPost, api+"/runs", oneShot("true"))
		return status == http.StatusServiceUnavailable && answer["error"] != nil
	})
	if status, answer := s.ask(http.MethodGet, "/readyz", nil); status != http.StatusServiceUnavailable {
		t.Errorf("it says that it is ready: %d %v", status, answer)
	}
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
	for _, in := range inputs { // input continues, too
		if _, err := in.Write([]byte("go\n")); err != nil {
			t.Error(err)
		}
	}
	followers.Wait()
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.output)
	}

	next := serve(t, data)
	if p := (&promise{id: waits["id"].(string), output: "later\n"}); p.check(next) != "" {
		t.Errorf("the run that waited: %s", p.check(next))
	}
	if _, session := next.ask(http.MethodGet, api+"/sessions/"+sessionID, nil); session["state"] != "active" {
		t.Errorf("the session: %v", session)
	}
	if _, run := next.ask(http.MethodGet, api+"/runs/"+stays["id"].(string), nil); run["phase"] != "running" {
		t.Errorf("the run in it: %v", run)
	}
	path := api + "/sessions/" + sessionID + "/files?path=go"
	if status, answer := next.ask(http.MethodPost, path, strings.NewReader("x"), "Content-Type: application/octet-stream"); status != http.StatusOK {
		t.Errorf("upload into the session: %d %v", status, answer)
	}
	for _, run := range []map[string]any{stays, first, second} {
		p := &promise{id: run["id"].(string), output: "up\nover\n"}
		if wrong := p.check(next); wrong != "" {
			t.Errorf("a run that was under way: %s", wrong)
		}
	}
	if code := next.stop(); code != 0 {
		t.Errorf("the next one ended with %d\n%s", code, next.output)
	}

	last := serve(t, data, "--set", "end_sessions=true")
	if _, session := last.ask(http.MethodGet, api+"/sessions/"+sessionID, nil); session["state"] != "active" {
		t.Errorf("the session: %v", session)
	}
	if code := last.stop(); code != 0 {
		t.Errorf("the last one ended with %d\n%s", code, last.output)
	}
	nothingLeft(t, data)
}

// longDrain is a drain time that no test waits for.
const longDrain = "drain_sec=3600"

// TestStopAtOnce sends two signals: active runs are cancelled, and report that.
func TestStopAtOnce(t *testing.T) {
	data := t.TempDir()
	s := serve(t, data, "--set", "cancel_grace_seconds=0.5", "--set", longDrain)
	_, run := s.ask(http.MethodPost, api+"/runs", oneShot("trap '' TERM; echo up; while true; do sleep 0.1; done"))
	id, _ := run["id"].(string)
	begun, ended := make(chan struct{}), make(chan map[string]any, 1)
	go func() {
		var once sync.Once
		defer once.Do(func() { close(begun) })
		frames, err := s.frames(api+"/runs/"+id+"/logs?format=json&follow=true", func(f map[string]any) {
			if f["type"] == "stdout" {
				once.Do(func() { close(begun) })
			}
		})
		if len(frames) == 0 {
			t.Errorf("the follower saw nothing: %v", err)
			frames = []map[string]any{nil}
		}
		ended <- frames[len(frames)-1]
	}()
	<-begun
	for range 2 {
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		until(t, "the signal is taken", func() bool {
			status, _, err := s.try(http.MethodPost, api+"/runs", oneShot("true"))
			return err != nil || status == http.StatusServiceUnavailable
		})
	}
	var last map[string]any
	select {
	case last = <-ended:
	case <-time.After(patience):
		t.Fatalf("the run goes on\n%s", s.dump())
	}
	if outcome, _ := last["data"].(map[string]any); last["event"] != "end" || outcome["phase"] != "killed" {
		t.Errorf("the follower saw at last %v", last)
	}
	<-s.done
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
	next := serve(t, data)
	if _, run := next.ask(http.MethodGet, api+"/runs/"+id, nil); run["phase"] != "killed" || !strings.Contains(run["message"].(string), "shutting down") {
		t.Errorf("the run: %v", run)
	}
	next.stop()
}

// TestStopByHangup sends SIGHUP, as the end of a terminal does: the server ends in order, with its sessions if the operator has
// set that.
func TestStopByHangup(t *testing.T) {
	s := serve(t, t.TempDir(), "--set", "end_sessions=true")
	s.ask(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.1", "base_image": "host"})
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.done:
	case <-time.After(stopTime):
		t.Fatalf("the server does not stop\n%s", s.dump())
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(s.output.String(), "hangup: no new runs") {
		t.Errorf("ended with %d\n%s", code, s.output)
	}
}
