//go:build linux

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/belljar/belljar"
)

// TestSandboxDiesInUse kills the agent of a session that is in use: by an exec, its shell, an attached terminal, an upload and a
// download. Each soon gets an error, the session is crashed, and its scope can be opened again.
func TestSandboxDiesInUse(t *testing.T) {
	data := t.TempDir()
	s := serve(t, data)
	scope := map[string]any{"scope": map[string]any{"namespace": "agent", "id": "dies"}}
	status, session := s.ask(http.MethodPost, api+"/sessions/open", scope)
	id, _ := session["session_id"].(string)
	if status/100 != 2 {
		t.Fatalf("open: %d %v", status, session)
	}
	path := api + "/sessions/" + id
	c := s.client()
	terminal, err := c.Terminals().Open(t.Context(), id, belljar.TerminalSpec{Command: []string{"/bin/sh"}})
	if err != nil {
		t.Fatal(err)
	}
	screen := s.watch(c, terminal.ID)
	screen.typed("echo be''gun; touch at-terminal; sleep 1000\r")
	screen.await("begun")
	var users sync.WaitGroup
	type outcome struct {
		status int
		answer map[string]any
		err    error
	}
	var mu sync.Mutex
	reports := map[string]outcome{}
	ask := func(name, method, path string, body any) {
		users.Go(func() {
			status, answer, err := s.try(method, path, body)
			mu.Lock()
			defer mu.Unlock()
			reports[name] = outcome{status, answer, err}
		})
	}
	ask("exec", http.MethodPost, path+"/exec", map[string]any{"cmd": []string{"sh", "-c", "touch in-exec; sleep 1000"}, "timeout_seconds": longTime})
	ask("shell", http.MethodPost, path+"/shell", map[string]any{"cmd": "touch in-shell; sleep 1000", "timeout_ms": longTime * 1000})
	comes, more := io.Pipe()
	ask("put", http.MethodPut, path+"/fs/raw?path=comes", comes)
	if _, err := more.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	status, answer := s.ask(http.MethodPost, path+"/exec", map[string]any{"cmd": []string{"sh", "-c", "head -c 100m /dev/zero >big"}})
	if status != http.StatusOK || answer["exit_code"] != 0.0 {
		t.Fatalf("a large file: %d %v", status, answer)
	}
	goes, err := s.open(path + "/fs/raw?path=big")
	if err != nil {
		t.Fatal(err)
	}
	defer goes.Close()
	if _, err := io.ReadFull(goes, make([]byte, 1<<16)); err != nil {
		t.Fatal(err)
	}
	until(t, "everything is under way", func() bool {
		_, list := s.ask(http.MethodPost, path+"/fs/list", map[string]any{"path": "."})
		text := fmt.Sprint(list)
		return strings.Contains(text, "at-terminal") && strings.Contains(text, "in-exec") && strings.Contains(text, "in-shell")
	})
	if err := syscall.Kill(s.agentOf(id), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, goes); err == nil {
		t.Errorf("a file that was cut off after %d bytes came to its end", n)
	}
	_, _ = more.Write(make([]byte, 1<<20)) // the server may have closed it
	_ = more.Close()
	users.Wait()
	for _, name := range []string{"exec", "shell"} {
		if h := reports[name]; h.err != nil || !strings.Contains(fmt.Sprint(h.answer), "sandbox_died") {
			t.Errorf("%s: %+v", name, h)
		}
	}
	if h := reports["put"]; h.status != http.StatusConflict && h.err == nil {
		t.Errorf("put: %+v", h)
	}
	var last belljar.TerminalEvent
	for {
		e, err := screen.Next(t.Context())
		if err != nil {
			break
		}
		last = e
	}
	if last.Kind != belljar.TerminalClosed || last.Reason == "" {
		t.Errorf("the last frame of the terminal is %+v", last)
	}
	until(t, "the session has crashed", func() bool {
		_, session := s.ask(http.MethodGet, path, nil)
		return session["state"] == "crashed" && session["message"] != ""
	})
	for name, body := range map[string]map[string]any{
		"/exec": {"cmd": []string{"true"}}, "/shell": {"cmd": "true"}, "/fs/read": {"path": "comes"},
	} {
		if status, answer := s.ask(http.MethodPost, path+name, body); status != http.StatusConflict || !strings.Contains(fmt.Sprint(answer), "crashed") {
			t.Errorf("%s afterwards: %d %v", name, status, answer)
		}
	}
	_, again := s.ask(http.MethodPost, api+"/sessions/open", scope)
	if again["created"] != true || again["session_id"] == id {
		t.Errorf("opened again: %v", again)
	}
	_, list := s.ask(http.MethodPost, api+"/sessions/"+fmt.Sprint(again["session_id"])+"/fs/list", map[string]any{"path": "."})
	if entries, _ := list["entries"].([]any); len(entries) != 0 {
		t.Errorf("the new one has %v", list)
	}
	if status, answer := s.ask(http.MethodPost, api+"/sessions/close", map[string]any{"key_prefix": "agent:"}); status != http.StatusOK {
		t.Errorf("close: %d %v", status, answer)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
}

// TestForgottenSandboxes makes servers forget their sandboxes, with a store in memory and with a data folder that is deleted while
// they run. The next server ends the sandboxes of its installation, and a server of another data folder does not touch them.
func TestForgottenSandboxes(t *testing.T) {
	other := t.TempDir()
	bystander := serve(t, other)
	_, theirs := bystander.ask(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.0", "base_image": "host"})

	data := t.TempDir()
	s := serve(t, data, "--set", "store_backend=memory")
	_, session := s.ask(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.0", "base_image": "host"})
	id, _ := session["session_id"].(string)
	s.ask(http.MethodPost, api+"/runs", oneShot("sleep 1000"))
	s.kill()
	s = serve(t, data, "--set", "store_backend=memory")
	if status, _ := s.ask(http.MethodGet, api+"/sessions/"+id, nil); status != http.StatusNotFound {
		t.Errorf("a session of a former life: %d", status)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)

	data = t.TempDir() // the first folder has logs, which a new store would not know
	s = serve(t, data)
	_, session = s.ask(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.0", "base_image": "host"})
	id, _ = session["session_id"].(string)
	name := filepath.Join(data, "installation")
	installation, err := os.ReadFile(name)
	if err == nil {
		err = os.RemoveAll(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	if status, answer := s.ask(http.MethodPost, api+"/runs", oneShot("true")); status != http.StatusInternalServerError {
		t.Errorf("a run that cannot be put on record: %d %v", status, answer)
	}
	if status, _ := s.ask(http.MethodGet, "/readyz", nil); status != http.StatusServiceUnavailable {
		t.Errorf("it says that it is ready: %d", status)
	}
	if status, answer := s.ask(http.MethodPost, api+"/sessions/"+id+"/fs/write", map[string]any{"path": "x", "contents": "x"}); status != http.StatusOK {
		t.Errorf("the session: %d %v", status, answer)
	}
	s.kill()
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, installation, 0o600); err != nil {
		t.Fatal(err)
	}
	s = serve(t, data)
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)

	if _, session := bystander.ask(http.MethodGet, api+"/sessions/"+theirs["session_id"].(string), nil); session["state"] != "active" {
		t.Errorf("the other's session: %v", session)
	}
	_, answer := bystander.ask(http.MethodPost, api+"/sessions/"+theirs["session_id"].(string)+"/exec", map[string]any{"cmd": []string{"true"}})
	if answer["exit_code"] != 0.0 {
		t.Errorf("in the other's session: %v", answer)
	}
}
