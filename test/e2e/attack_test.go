//go:build linux

package e2e

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar/test/tier"
)

// user makes a user of the server and returns their key.
func (s *server) user(name string) string {
	s.t.Helper()
	status, token := s.ask("POST", api+"/admin/tokens", map[string]any{"user_id": name, "name": name})
	key, _ := token["secret"].(string)
	if status != http.StatusOK || key == "" {
		s.t.Fatalf("a key for %s: %d %v", name, status, token)
	}
	return key
}

// send sends a request with key ("" for none), and returns the whole response. Headers are "Name: value".
func (s *server) send(method, path, key, body string, header ...string) (int, http.Header, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body == "" {
		req.Body = nil
	}
	if key != "" {
		req.Header.Set("X-API-KEY", key)
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, resp.Header, string(answer)
}

// made creates an object as the user with key, and returns the id in the response's field name.
func (s *server) made(path, key, name string, body map[string]any) string {
	s.t.Helper()
	status, answer := s.ask("POST", api+path, body, "X-API-KEY: "+key)
	id, _ := answer[name].(string)
	if status != http.StatusOK || id == "" {
		s.t.Fatalf("POST %s: %d %v", path, status, answer)
	}
	return id
}

// host returns a session in the image host.
func host() map[string]any { return map[string]any{"spec_version": "1.0", "base_image": "host"} }

// upgrading returns the headers of a WebSocket handshake.
func upgrading() []string {
	return []string{
		"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
	}
}

// TestAttackOthers requests another user's resources in every way: for this user they do not exist.
func TestAttackOthers(t *testing.T) {
	s := serve(t, t.TempDir())
	ann, bob := s.user("ann"), s.user("bob")
	session := s.made("/sessions", ann, "session_id", host())
	body := oneShot("echo very private; echo private > out.txt")
	body["capture_patterns"], body["labels"] = []string{"*"}, map[string]string{"project": "private"}
	status, run := s.ask("POST", api+"/runs?wait=600s", body, "X-API-KEY: "+ann, "Idempotency-Key: same")
	id, _ := run["run_id"].(string)
	if status != http.StatusOK || run["phase"] != "completed" {
		t.Fatalf("%d %v", status, run)
	}
	for _, c := range []struct {
		method, path, body string
		want               int // status for another user
	}{
		{"GET", "/runs/" + id, "", 404},
		{"POST", "/runs/" + id + "/cancel", "", 404},
		{"GET", "/runs/" + id + "/artifacts", "", 404},
		{"GET", "/runs/" + id + "/artifacts/out.txt", "", 404},
		{"GET", "/runs/" + id + "/logs", "", 404},
		{"GET", "/runs/" + id + "/logs?follow=true", "", 404},
		{"GET", "/runs/" + id + "/stream", "", 404},
		{"GET", "/sessions/" + session, "", 404},
		{"DELETE", "/sessions/" + session, "", 404},
		{"POST", "/sessions/" + session + "/files?path=x", "x", 404},
		{"POST", "/runs", `{"spec_version":"1.0","session_id":"` + session + `","command":["true"]}`, 404},
		{"GET", "/runs?session_id=" + session, "", 200},
		{"GET", "/runs?q=private", "", 200},
		{"GET", "/runs", "", 200},
		{"GET", "/sessions?all=true", "", 200},
		{"GET", "/me", "", 200},
		{"GET", "/runtimes", "", 200},
		{"GET", "/admin/runs", "", 403},
		{"GET", "/%61dmin/runs", "", 403},
		{"GET", "/admin/runs/" + id, "", 403},
		{"GET", "/admin/idempotency", "", 403},
		{"GET", "/admin/usage", "", 403},
		{"GET", "/admin/quotas/ann", "", 403},
		{"PUT", "/admin/quotas/bob", "{}", 403},
		{"DELETE", "/admin/quotas/bob", "", 403},
		{"GET", "/admin/tokens", "", 403},
		{"POST", "/admin/tokens", `{"user_id":"bob"}`, 403},
		{"DELETE", "/admin/tokens/x", "", 403},
		{"GET", "/../../../metrics", "", 403},
	} {
		var header []string
		path := api + c.path
		if strings.HasPrefix(c.path, "/..") {
			path = strings.TrimPrefix(c.path, "/../../..")
		}
		if strings.HasSuffix(path, "/stream") {
			header = upgrading()
		}
		if strings.Contains(path, "/files") {
			header = []string{"Content-Type: application/octet-stream"}
		}
		if status, _, answer := s.send(c.method, path, "", c.body, header...); status != http.StatusUnauthorized || strings.Contains(answer, "private") {
			t.Errorf("a stranger, %s %s: %d %s", c.method, c.path, status, answer)
		}
		status, _, answer := s.send(c.method, path, bob, c.body, header...)
		if status != c.want || strings.Contains(answer, "private") || strings.Contains(answer, `"ann"`) {
			t.Errorf("another user, %s %s: %d %s", c.method, c.path, status, answer)
		}
	}
	// Another user's resource and a missing one give the same response.
	none := strings.Repeat("0", 8) + id[8:]
	_, _, foreign := s.send("GET", api+"/runs/"+id, bob, "")
	if _, _, missing := s.send("GET", api+"/runs/"+none, bob, ""); strings.ReplaceAll(foreign, id, none) != missing {
		t.Errorf("%s and %s differ", foreign, missing)
	}
	// An idempotency key belongs to its user.
	if _, other := s.ask("POST", api+"/runs?wait=600s", body, "X-API-KEY: "+bob, "Idempotency-Key: same"); other["run_id"] == id || other["phase"] != "completed" {
		t.Errorf("another's key: %v", other)
	}
	// So does a ticket. It works once, and for streams.
	ticket := func(key string) string { return s.made("/tickets", key, "token", map[string]any{}) }
	if status, _, answer := s.send("GET", api+"/runs/"+id+"/logs?token="+ticket(bob), "", ""); status != http.StatusNotFound {
		t.Errorf("another's ticket: %d %s", status, answer)
	}
	once := ticket(ann)
	for i, want := range []int{200, 401} {
		if status, _, answer := s.send("GET", api+"/runs/"+id+"/logs?token="+once, "", ""); status != want {
			t.Errorf("use %d of a ticket: %d %s", i+1, status, answer)
		}
	}
	if status, _, answer := s.send("GET", api+"/runs/"+id+"?token="+ticket(ann), "", ""); status != http.StatusUnauthorized {
		t.Errorf("a ticket beside streams: %d %s", status, answer)
	}
	if status, _ := s.ask("GET", api+"/sessions/"+session, nil, "X-API-KEY: "+ann); status != http.StatusOK {
		t.Errorf("the session did not outlive it: %d", status)
	}
}

// TestAttackBodies sends bodies that no client should send: each quickly gets its error, which does not repeat the
// whole body.
func TestAttackBodies(t *testing.T) {
	s := serve(t, t.TempDir())
	ann := s.user("ann")
	session := s.made("/sessions", ann, "session_id", host())
	const run = `{"spec_version":"1.0","base_image":"host","command":["true"]`
	long := strings.Repeat("x", 3<<20)
	octets := "Content-Type: application/octet-stream"
	for _, c := range []struct {
		name, path, body, header string
		status                   int
		code                     string
	}{
		{"nothing", "/runs", "", "", 400, "invalid_request"},
		{"half", "/runs", "{", "", 400, "invalid_request"},
		{"a list", "/runs", "[]", "", 400, "invalid_request"},
		{"two", "/runs", run + "}" + run + "}", "", 400, "invalid_request"},
		{"deep", "/runs", strings.Repeat("[", 1<<20), "", 400, "invalid_request"},
		{"too long", "/runs", run + `,"stdin":"` + strings.Repeat("x", 5<<20) + `"}`, "", 413, "payload_too_large"},
		{"very many values", "/runs", run + `,"env":[` + strings.Repeat("1,", 1<<20) + `1]}`, "", 400, "invalid_request"},
		{"very many arguments", "/runs", `{"command":[` + strings.Repeat(`"",`, 1<<20) + `""]}`, "", 400, "invalid_request"},
		{"unknown field", "/runs", run + `,"comand":1}`, "", 400, "invalid_request"},
		{"long unknown field", "/runs", `{"` + long + `":1}`, "", 400, "invalid_request"},
		{"long version", "/runs", `{"base_image":"host","command":["x"],"spec_version":"` + long + `"}`, "", 400, "invalid_spec_version"},
		{"long image", "/runs", `{"spec_version":"1.0","command":["x"],"base_image":"` + long + `"}`, "", 400, "invalid_request"},
		{"long network", "/runs", run + `,"network_policy":"` + long + `"}`, "", 403, "policy_denied"},
		{"wrong type", "/runs", `{"spec_version":"1.0","base_image":1}`, "", 400, "invalid_request"},
		{"number as version", "/runs", `{"spec_version":1.0}`, "", 400, "invalid_spec_version"},
		{"no version", "/runs", `{"base_image":"host","command":["true"]}`, "", 400, "invalid_spec_version"},
		{"version", "/runs", `{"spec_version":"7","base_image":"host","command":["true"]}`, "", 400, "invalid_spec_version"},
		{"both places", "/runs", run + `,"session_id":"x"}`, "", 400, "invalid_request"},
		{"no place", "/runs", `{"spec_version":"1.0","command":["true"]}`, "", 400, "invalid_request"},
		{"no weak runs for users", "/runs", run + `,"allow_weak":["seccomp"]}`, "", 403, "policy_denied"},
		{"labels", "/runs", run + `,"labels":{` + strings.Repeat(`"k":"v",`, 10) + `"z":"v"}}`, "", 400, "invalid_request"},
		{"form", "/runs", "spec_version=1.0", "Content-Type: application/x-www-form-urlencoded", 400, "invalid_request"},
		{"text", "/runs", run + "}", "Content-Type: text/plain", 400, "invalid_request"},
		{"path up", "/sessions/" + session + "/files?path=../x", "x", octets, 400, "invalid_request"},
		{"path with NUL", "/sessions/" + session + "/files?path=a%00b", "x", octets, 400, "invalid_request"},
		{"folder up", "/sessions/" + session + "/files?path=x&dir=../..", "x", octets, 400, "path_escapes"},
		{"archive of links", "/sessions/" + session + "/files", tarOf(tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}), "Content-Type: application/x-tar", 400, "invalid_request"},
		{"archive up", "/sessions/" + session + "/files", tarOf(tar.Header{Name: "ok"}, tar.Header{Name: "../x"}), "Content-Type: application/x-tar", 400, "path_escapes"},
		{"ten thousand", "/sessions/" + session + "/files", tarOf(manyHeaders(10_000)...), "Content-Type: application/x-tar", 413, "payload_too_large"},
	} {
		if c.header == "" {
			c.header = "Content-Type: application/json"
		}
		begun := time.Now()
		status, _, answer := s.send("POST", api+c.path, ann, c.body, c.header)
		took := time.Since(begun)
		if status != c.status || !strings.Contains(answer, `"`+c.code+`"`) {
			t.Errorf("%s: %d %.300s", c.name, status, answer)
		}
		if len(answer) > 8<<10 || took > promptly {
			t.Errorf("%s: %d bytes after %v", c.name, len(answer), took)
		}
	}
	if _, run := s.ask("POST", api+"/runs?wait=600s", map[string]any{
		"spec_version": "1.0", "session_id": session, "command": []string{"ls", "-A"},
	}, "X-API-KEY: "+ann); run["stdout"] != "" || run["phase"] != "completed" {
		t.Errorf("left of refused uploads: %v", run)
	}
}

// tarOf returns an archive of empty files.
func tarOf(headers ...tar.Header) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		h.Mode = 0o644
		if err := w.WriteHeader(&h); err != nil {
			panic(err)
		}
	}
	w.Close()
	return b.String()
}

func manyHeaders(n int) []tar.Header {
	all := make([]tar.Header, n)
	for i := range all {
		all[i].Name = fmt.Sprint("f", i)
	}
	return all
}

// TestAttackStorms does the same thing in many places concurrently, and things that exclude each other.
func TestAttackStorms(t *testing.T) {
	s := serve(t, t.TempDir())
	ann := s.user("ann")
	key := "X-API-KEY: " + ann

	t.Run("one key, fifty clients", func(t *testing.T) {
		var ids sync.Map
		var clients sync.WaitGroup
		for range 50 {
			clients.Go(func() {
				status, run, err := s.try("POST", api+"/runs", oneShot("sleep 0.1"), key, "Idempotency-Key: storm")
				if err != nil || status != http.StatusOK && status != http.StatusAccepted {
					t.Errorf("%d %v %v", status, run, err)
				}
				ids.Store(run["run_id"], true)
			})
		}
		clients.Wait()
		n := 0
		ids.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Errorf("%d runs of one key", n)
		}
	})

	t.Run("cancelled while they start", func(t *testing.T) {
		var clients sync.WaitGroup
		for range 30 {
			clients.Go(func() {
				_, run, err := s.try("POST", api+"/runs", oneShot("sleep 50"), key)
				id, _ := run["run_id"].(string)
				for range 2 {
					if status, answer, err := s.try("POST", api+"/runs/"+id+"/cancel", nil, key); err != nil || status != http.StatusOK {
						t.Errorf("cancel: %d %v %v", status, answer, err)
					}
				}
				if _, logs := s.get(api + "/runs/" + id + "/logs?follow=true"); err != nil || logs != nil { // logs end with the run
					t.Errorf("cancelled: %v %v", err, logs)
				}
				if _, run, err := s.try("GET", api+"/runs/"+id, nil, key); err != nil || run["phase"] != "killed" || run["reason_code"] != "canceled_by_user" {
					t.Errorf("a cancelled run: %v %v", run, err)
				}
			})
		}
		clients.Wait()
	})

	t.Run("sessions end under their users", func(t *testing.T) {
		allowed := map[string][]int{"run": {200, 404, 409}, "upload": {200, 404, 409}, "delete": {204}}
		var clients sync.WaitGroup
		for range 8 {
			id := s.made("/sessions", ann, "session_id", host())
			check := func(what, method, path string, body any, header ...string) {
				status, answer, err := s.try(method, api+path, body, append(header, key)...)
				ok := err == nil
				for _, a := range allowed[what] {
					if ok && status == a {
						return
					}
				}
				t.Errorf("%s: %d %v %v", what, status, answer, err)
			}
			for range 2 {
				clients.Go(func() {
					check("run", "POST", "/runs?wait=600s", map[string]any{"spec_version": "1.0", "session_id": id, "command": []string{"sleep", "50"}})
				})
				clients.Go(func() {
					check("upload", "POST", "/sessions/"+id+"/files?path=x", strings.NewReader(long()), "Content-Type: application/octet-stream")
				})
				clients.Go(func() { check("delete", "DELETE", "/sessions/"+id, nil) })
			}
		}
		clients.Wait()
	})
}

func long() string { return strings.Repeat("x", 3<<20) }

// TestAttackMemory makes one user send and request as much as they can. The server stays small, and other users are
// not affected.
func TestAttackMemory(t *testing.T) {
	s := serve(t, t.TempDir())
	ann, bob := s.user("ann"), s.user("bob")
	if _, run := s.ask("POST", api+"/runs?wait=600s", oneShot("true"), "X-API-KEY: "+bob); run["phase"] != "completed" {
		t.Fatal(run)
	}
	before := s.size()
	var most atomic.Int64
	watched := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				most.Store(max(most.Load(), s.size()))
			}
		}
	}()

	// Bodies without an end.
	body := strings.Repeat(" ", 4<<20-1)
	var held sync.WaitGroup
	for range 100 {
		conn := s.dial()
		held.Go(func() {
			fmt.Fprintf(conn, "POST %s/runs HTTP/1.1\r\nHost: h\r\nX-API-KEY: %s\r\nContent-Length: %d\r\n\r\n", api, ann, 4<<20)
			_ = conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
			_, _ = io.WriteString(conn, body) // most wait for room
		})
	}
	held.Wait()
	begun := time.Now()
	if _, run := s.ask("POST", api+"/runs?wait=600s", oneShot("true"), "X-API-KEY: "+bob); run["phase"] != "completed" || time.Since(begun) > promptly {
		t.Errorf("another user waits %v for %v", time.Since(begun), run["phase"])
	}

	// Bodies that cost much work, from another user.
	carl := s.user("carl")
	work := `{"spec_version":"1.0","base_image":"host","command":[` + strings.Repeat(`"a",`, 1<<20-50) + `"a"]}`
	var workers sync.WaitGroup
	for range tier.Pick(4, 40) {
		workers.Go(func() {
			status, _, err := s.try("POST", api+"/runs", strings.NewReader(work), "X-API-KEY: "+carl)
			if err == nil && status != http.StatusBadRequest && status != http.StatusTooManyRequests && status != http.StatusRequestEntityTooLarge {
				t.Errorf("a million arguments: %d", status)
			}
		})
	}
	workers.Wait()

	// Lists of long commands.
	args := make([]string, 500)
	for i := range args {
		args[i] = strings.Repeat("a", 2000)
	}
	for range 20 {
		status, run := s.ask("POST", api+"/runs?wait=600s", map[string]any{
			"spec_version": "1.0", "base_image": "host", "command": append([]string{"true"}, args...),
		}, "X-API-KEY: "+carl)
		if status != http.StatusOK || run["phase"] != "completed" || run["command_truncated"] != true {
			t.Fatalf("%d %.300s", status, fmt.Sprint(run))
		}
	}
	status, _, answer := s.send("GET", api+"/runs?limit=200", carl, "")
	if status != http.StatusOK || len(answer) > 2<<20 || !json.Valid([]byte(answer)) {
		t.Errorf("a list of 20 runs: %d, %d bytes", status, len(answer))
	}

	close(stop)
	<-watched
	if grown := most.Load() - before; grown > 400<<20 {
		t.Errorf("the server grew by %d MiB", grown>>20)
	}
	t.Logf("%d MiB before, at most %d MiB", before>>20, most.Load()>>20)
}

// TestAttackSecrets searches for keys everywhere outside their proper places.
func TestAttackSecrets(t *testing.T) {
	s := serve(t, t.TempDir(), "--set", "log_level=debug", "--set", "ws_signed_urls=true")
	ann := s.user("ann")
	_, run := s.ask("POST", api+"/runs?wait=600s", oneShot("env; cat /proc/*/environ /proc/*/cmdline"), "X-API-KEY: "+ann)
	id, _ := run["run_id"].(string)
	ticket := s.made("/tickets", ann, "token", map[string]any{})
	signed, _ := run["log_stream_url"].(string)
	_, token, _ := strings.Cut(signed, "token=")
	token, _, _ = strings.Cut(token, "&")
	if id == "" || token == "" {
		t.Fatalf("%v", run)
	}
	s.send("GET", api+"/runs/"+id+"/logs?token="+ticket, "", "")
	s.send("GET", api+"/runs/"+id+"/stream?token="+token, "", "")
	s.send("GET", api+"/runs?api_key="+ann, "", "")
	s.send("GET", api+"/me", ann+"x", "")
	s.send("GET", api+"/me", "", "", "Authorization: Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9."+ann[:20])
	signing, err := os.ReadFile(filepath.Join(s.data, "signing-secret"))
	if err != nil {
		t.Fatal(err)
	}
	places := map[string]string{
		"the run": fmt.Sprint(run["stdout"], run["stderr"], run["command"]), "the log": s.output.String(),
		"the metrics": s.text("/metrics"), "the document": s.text("/openapi.json"), "the page": s.text("/docs"), "ready": s.text("/readyz"),
		"the command line": slurp(t, fmt.Sprintf("/proc/%d/cmdline", s.cmd.Process.Pid)),
		"the idempotency":  s.text(api + "/admin/idempotency"), "the tokens": s.text(api + "/admin/tokens"),
	}
	err = filepath.WalkDir(s.data, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return nil // the file is gone
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v", path, info.Mode())
		}
		if name := e.Name(); name != "api-key" && name != "signing-secret" {
			places[path] = slurp(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for what, secret := range map[string]string{
		"the operator's key": s.Key, "a user's key": ann, "a ticket": ticket, "a signed token": token,
		"the signing secret": strings.TrimSpace(string(signing)),
	} {
		for place, text := range places {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in %s", what, place)
			}
		}
	}
}

func slurp(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}
