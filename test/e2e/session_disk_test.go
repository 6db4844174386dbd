//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

// TestSessionsOnAFullDisk fills the disk under a server whose sessions are in use. Their workspaces, shells and terminals are
// elsewhere and continue; requests that need a record are refused, and an expired session still ends.
func TestSessionsOnAFullDisk(t *testing.T) {
	disk := smallDisk(t, "12m")
	data := filepath.Join(disk, "data")
	args := []string{"--set", "min_free_mb=0", "--set", "reap_every_sec=1"}
	s := serve(t, data, args...)
	c := s.client()
	x := s.session(c, nil)
	path := api + "/sessions/" + x.ID
	brief := map[string]any{"scope": map[string]any{"namespace": "agent", "id": "brief"}, "ttl_sec": 3}
	status, short := s.ask(http.MethodPost, api+"/sessions/open", brief)
	if status/100 != 2 {
		t.Fatalf("open: %d %v", status, short)
	}
	shortPath := api + "/sessions/" + fmt.Sprint(short["session_id"])
	shell := func(cmd string) (int, map[string]any) {
		return s.ask(http.MethodPost, path+"/shell", map[string]any{"cmd": cmd})
	}
	if status, answer := shell("N=1"); status != http.StatusOK {
		t.Fatalf("shell: %d %v", status, answer)
	}
	made, err := c.Terminals().Open(t.Context(), x.ID, belljar.TerminalSpec{Command: []string{"/bin/sh"}})
	if err != nil {
		t.Fatal(err)
	}
	screen := s.watch(c, made.ID)
	screen.typed("echo be''gun\r")
	screen.await("begun")

	free := fill(t, disk, 0)
	status, answer := shell("N=$((N+1)); echo $N")
	if status != http.StatusInsufficientStorage || codeOf(answer) != "disk_full" {
		t.Errorf("shell: %d %v", status, answer)
	}
	status, answer = s.ask(http.MethodPost, api+"/sessions/open", map[string]any{"scope": map[string]any{"namespace": "agent", "id": "x"}})
	if status != http.StatusInsufficientStorage || codeOf(answer) != "disk_full" {
		t.Errorf("open: %d %v", status, answer)
	}
	status, answer = s.ask(http.MethodPost, path+"/fs/write", map[string]any{"path": "a", "contents": "b"})
	if status != http.StatusOK {
		t.Errorf("write: %d %v", status, answer)
	}
	screen.typed("echo st''ill\r")
	screen.await("still")
	until(t, "the short one ends", func() bool {
		_, session := s.ask(http.MethodGet, shortPath, nil)
		return session["state"] == "expired"
	})
	s.ask(http.MethodDelete, shortPath, nil) // waits until its sandbox is removed: its end is not on record
	s.kill()
	s = serve(t, data, args...)
	if _, session := s.ask(http.MethodGet, path, nil); session["state"] != "active" {
		t.Errorf("the session on the full disk: %v\n%s", session, s.output)
	}
	if _, session := s.ask(http.MethodGet, shortPath, nil); session["state"] == "active" {
		t.Errorf("the short one lives again: %v", session)
	}
	free()

	until(t, "everything works again", func() bool {
		status, answer := s.ask(http.MethodPost, path+"/shell", map[string]any{"cmd": "echo N is $N"})
		return status == http.StatusOK && strings.Contains(fmt.Sprint(answer["output"]), "N is ")
	})
	screen = s.watch(s.client(), made.ID)
	screen.typed("echo ag''ain\r")
	screen.await("again")
	until(t, "the short one's scope is free", func() bool {
		_, session := s.ask(http.MethodPost, api+"/sessions/open", brief)
		return session["created"] == true && session["session_id"] != short["session_id"]
	})
	status, answer = s.ask(http.MethodPost, api+"/sessions/open", map[string]any{"scope": map[string]any{"namespace": "agent", "id": "x"}})
	if status/100 != 2 || answer["created"] != true {
		t.Errorf("open with room again: %d %v", status, answer)
	}
	if status, answer := s.ask(http.MethodPost, api+"/sessions/close", map[string]any{"key_prefix": "agent:"}); status != http.StatusOK {
		t.Errorf("close: %d %v", status, answer)
	}
	if status, answer := s.ask(http.MethodDelete, path, nil); status != http.StatusNoContent {
		t.Errorf("delete: %d %v", status, answer)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
}
