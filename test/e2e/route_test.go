//go:build linux

package e2e

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// TestEveryDocumentedRoute requests every route of a server's document without a key: every route exists, in each door, and
// requires authentication unless the document excludes it.
func TestEveryDocumentedRoute(t *testing.T) {
	s := serve(t, t.TempDir())
	var doc struct {
		Paths map[string]map[string]struct {
			Security *[]map[string]any
			Tags     []string
		}
	}
	if err := json.Unmarshal([]byte(s.text("/openapi.json")), &doc); err != nil {
		t.Fatal(err)
	}
	placeholder := regexp.MustCompile(`\{[^}]+\}`)
	doors := map[string]int{}
	for path, item := range doc.Paths {
		for method, op := range item {
			req, err := http.NewRequest(strings.ToUpper(method), s.URL+placeholder.ReplaceAllString(path, "x"), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			want := http.StatusUnauthorized
			if op.Security != nil && len(*op.Security) == 1 && len((*op.Security)[0]) == 0 {
				want = http.StatusOK
			}
			if path == "/api/v1/sandbox/login" && method == "post" {
				want = http.StatusBadRequest // it has no body
			}
			if resp.StatusCode != want {
				t.Errorf("%s %s: %d, want %d", method, path, resp.StatusCode, want)
			}
			doors[op.Tags[0]]++
		}
	}
	// The thread API has eight routes, the workspace API nineteen; the shell API has seven, and also lists and deletes files, and streams.
	if doors["threads"] != 8 || doors["workspace"] != 19 || doors["shell"] != 10 || doors["sessions"] < 12 || doors["files"] < 13 || doors["terminals"] < 4 {
		t.Errorf("documented: %v", doors)
	}
}

// TestSessionsThatAreNotThere requests every documented route of a session for inaccessible sessions: unknown, another user's, closed,
// expired. Another user's session does not exist; an ended one is reported as ended.
func TestSessionsThatAreNotThere(t *testing.T) {
	s := serve(t, t.TempDir(), "--set", "preview_domain=preview.localhost")
	open := func(id string, more ...string) string {
		t.Helper()
		spec := map[string]any{"scope": map[string]any{"namespace": "workflow", "id": id}}
		if len(more) > 0 {
			spec["ttl_sec"] = 0.1
		}
		status, session := s.ask(http.MethodPost, api+"/sessions/open", spec)
		if status != http.StatusOK {
			t.Fatalf("%d %v", status, session)
		}
		return session["session_id"].(string)
	}
	mine, closed, expired := open("mine"), open("closed"), open("expired", "soon")
	if status, answer := s.ask(http.MethodDelete, api+"/sessions/"+closed, nil); status != http.StatusNoContent {
		t.Fatalf("%d %v", status, answer)
	}
	until(t, "its time is over", func() bool {
		_, session := s.ask(http.MethodGet, api+"/sessions/"+expired, nil)
		return session["state"] == "expired"
	})
	_, token := s.ask(http.MethodPost, api+"/admin/tokens", map[string]any{"user_id": "carol"})
	stranger, _ := token["secret"].(string)

	var doc struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal([]byte(s.text("/openapi.json")), &doc); err != nil {
		t.Fatal(err)
	}
	about := map[string]bool{ // these routes treat an ended session like others
		"get-session": true, "delete-session": true, "v1-get-session": true, "v1-destroy-session": true, "list-terminals": true,
	}
	bodies := map[string]any{
		"exec": map[string]any{"cmd": []string{"true"}}, "v1-exec": map[string]any{"cmd": "true"}, "v1-exec-stream": map[string]any{"cmd": "true"},
		"shell": map[string]any{"cmd": "true"}, "write-file": map[string]any{"path": "x", "contents": "a"}, "v1-write": map[string]any{"path": "x", "text": "a"},
		"write-files": map[string]any{"files": []any{map[string]any{"path": "x", "contents": "a"}}}, "rename-file": map[string]any{"from": "x", "to": "y"},
		"search-files": map[string]any{"name": "x"}, "put-file": strings.NewReader("x"), "upload-files": strings.NewReader("x"),
		"create-preview": map[string]any{"port": 3000}, "create-snapshot": map[string]any{}, "fork-session": map[string]any{},
		"create-context": map[string]any{"language": "python"}, "execute-code": map[string]any{"code": "1"}, "complete-code": map[string]any{"code": "1"},
		"hibernate-session": map[string]any{}, "set-session-network": map[string]any{"network_policy": "deny_all"},
	}
	asked := 0
	for path, item := range doc.Paths {
		for method, op := range item {
			parameter := "{session_id}"
			if strings.HasPrefix(path, "/v1/sessions/{id}") {
				parameter = "{id}"
			}
			if method == "parameters" || !strings.Contains(path, parameter) || op.OperationID == "open-tunnel" { // it responds over its WebSocket
				continue
			}
			asked++
			for id, want := range map[string]int{mine: 404, "01a1feee-0000-70dc-b292-20d9fce576dc": 404, closed: 409, expired: 409} {
				key := s.Key
				if id == mine {
					key = stranger
				}
				if want == http.StatusConflict && (about[op.OperationID] || strings.Contains(path, "{exec_id}")) {
					continue
				}
				body, ok := bodies[op.OperationID]
				if !ok && method == "post" {
					body = map[string]any{"path": "x"}
				}
				if strings.HasSuffix(path, "/terminals") && method == "post" || strings.HasSuffix(path, "/wait") || strings.HasSuffix(path, "/cancel") {
					body = map[string]any{}
				}
				header := "Content-Type: application/json"
				if r, stream := body.(*strings.Reader); stream {
					r.Reset("x")
					header = "Content-Type: application/octet-stream"
				}
				query := ""
				if strings.HasSuffix(path, "/raw") || strings.HasSuffix(path, "/files") || strings.HasSuffix(path, "/fs/read") && method == "get" || method == "delete" && strings.HasSuffix(path, "/fs/delete") {
					query = "?path=x"
				}
				at := strings.NewReplacer(parameter, id, "{exec_id}", "x", "{name}", "x").Replace(path) + query
				status, answer := s.ask(strings.ToUpper(method), at, body, header, "X-API-KEY: "+key)
				if status != want {
					t.Errorf("%s %s: %d, want %d: %v", method, at, status, want, answer)
				}
			}
		}
	}
	if asked < 25 {
		t.Errorf("only %d routes", asked)
	}
}
