//go:build linux

package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// hook is a receiver of the webhook of approvals. It verifies each message with the key in the server's data folder.
type hook struct {
	url string

	mu   sync.Mutex
	seen map[string]bool // by type and approval
}

func newHook(t *testing.T, data string) *hook {
	h := &hook{seen: map[string]bool{}}
	peer := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		text, keyErr := os.ReadFile(filepath.Join(data, "webhook-key"))
		key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(string(text)), "whsec_"))
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(r.Header.Get("Webhook-Id") + "." + r.Header.Get("Webhook-Timestamp") + "." + string(body)))
		var m struct {
			Type string
			Data struct {
				ApprovalID string `json:"approval_id"`
			}
		}
		if err != nil || keyErr != nil || len(key) != 32 || json.Unmarshal(body, &m) != nil ||
			r.Header.Get("Webhook-Signature") != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
			t.Errorf("a message that cannot be verified: %v %v %v %s", err, keyErr, r.Header, body)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.seen[strings.TrimPrefix(m.Type, "sandbox.approval.")+" "+m.Data.ApprovalID] = true
	}))
	t.Cleanup(peer.Close)
	h.url = peer.URL
	return h
}

func (h *hook) has(what string, ids ...string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		if !h.seen[what+" "+id] {
			return false
		}
	}
	return true
}

// TestApproval kills a server while requests wait for an operator, and right after a decision. Nothing starts without its approval, and
// an approved request runs once. A user can decide nothing, whatever they send.
func TestApproval(t *testing.T) {
	data := t.TempDir()
	hook := newHook(t, data)
	t.Setenv("SANDBOX_APPROVAL_WEBHOOK", hook.url)
	args := []string{"--set", "approval=timeout_sec>600", "--set", "end_sessions=false"}
	s := serve(t, data, args...)
	key := s.user("ann")
	as := "X-API-KEY: " + key
	body := func(word string) map[string]any {
		return map[string]any{"spec_version": "1.1", "base_image": "host", "command": []string{"echo", word}, "timeout_sec": 900}
	}
	asked := func(path string, what map[string]any) string {
		t.Helper()
		status, made := s.ask("POST", api+path, what, as)
		approval, _ := made["approval"].(map[string]any)
		if status/100 != 2 || approval["state"] != "pending" {
			t.Fatalf("%s: %d %v", path, status, made)
		}
		return approval["id"].(string)
	}
	first, second := asked("/runs", body("first")), asked("/runs?wait=0.1", body("second"))
	session := asked("/sessions", map[string]any{"spec_version": "1.1", "base_image": "host", "timeout_sec": 900})
	approve := map[string]any{"decision": "approve"}
	for _, id := range []string{first, session} { // the users' own requests
		if status, reply := s.ask("POST", api+"/admin/approvals/"+id, approve, as); status != http.StatusForbidden {
			t.Errorf("%d %v", status, reply)
		}
	}
	for id, want := range map[string]int{"01920000-0000-7000-8000-000000000001": 404, "x'%20OR%201=1": 404, "..%2fruns": 404} {
		if status, reply := s.ask("POST", api+"/admin/approvals/"+id, approve); status != want {
			t.Errorf("%s: %d %v", id, status, reply)
		}
	}
	if status, reply := s.ask("POST", api+"/sessions/"+session+"/exec", map[string]any{"cmd": []string{"true"}}, as); status != http.StatusConflict {
		t.Errorf("a session that waits: %d %v", status, reply)
	}
	until(t, "the webhook knows what waits", func() bool { return hook.has("requested", first, second, session) })
	s.kill()

	s = serve(t, data, args...)
	status, list := s.ask("GET", api+"/admin/approvals?state=pending", nil)
	if status != http.StatusOK || list["total"] != 3.0 {
		t.Fatalf("after a kill: %d %v", status, list)
	}
	for _, id := range []string{first, session} {
		if status, reply := s.ask("POST", api+"/admin/approvals/"+id, approve); status != http.StatusOK || reply["decided_by"] == nil {
			t.Fatalf("%d %v", status, reply)
		}
	}
	s.kill() // it may or may not have begun

	s = serve(t, data, append(args[:2:2], "--set", "end_sessions=true")...)
	if run := s.wait(first); run["approval"].(map[string]any)["state"] != "approved" {
		t.Errorf("%v", run)
	} else if log := s.text(api + "/runs/" + first + "/logs?format=text"); run["phase"] == "completed" && strings.Count(log, "first") != 1 {
		t.Errorf("it printed %q", log)
	}
	if status, run := s.ask("GET", api+"/runs/"+second, nil, as); status != http.StatusOK || run["phase"] != "queued" || run["approval"].(map[string]any)["state"] != "pending" {
		t.Errorf("a run without an approval: %d %v", status, run)
	}
	if status, reply := s.ask("POST", api+"/admin/approvals/"+second, map[string]any{"decision": "deny", "note": "no"}); status != http.StatusOK {
		t.Errorf("%d %v", status, reply)
	}
	if run := s.wait(second); run["phase"] != "failed" || run["reason_code"] != "policy_denied" || run["started_at"] != nil || !strings.HasSuffix(run["message"].(string), "denied it: no") {
		t.Errorf("%v", run)
	}
	if status, reply := s.ask("POST", api+"/admin/approvals/"+first, approve); status != http.StatusConflict || reply["error"].(map[string]any)["details"].(map[string]any)["decided_by"] == nil {
		t.Errorf("decided twice: %d %v", status, reply)
	}
	until(t, "the webhook knows what was decided", func() bool { return hook.has("denied", second) })
	until(t, "the session is made", func() bool { // it was approved, and perhaps half made when the server was killed
		_, x := s.ask("GET", api+"/sessions/"+session, nil, as)
		return x["state"] == "active"
	})
	if code := s.stop(); code != 0 {
		t.Errorf("the server ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
}
