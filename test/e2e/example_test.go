//go:build linux

package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"os/exec"
	"strings"
	"testing"
)

// TestSpecificationExample is the end-to-end example of the sandbox API as written, except that the image is the host's own
// programs, and the runtime is omitted.
func TestSpecificationExample(t *testing.T) {
	s := serve(t, t.TempDir())

	// 1) Create session
	status, session := s.ask(http.MethodPost, api+"/sessions", map[string]any{
		"spec_version": "1.0", "base_image": "host", "timeout_sec": 60, "network_policy": "deny_all",
	})
	id, _ := session["session_id"].(string)
	if status != http.StatusOK && status != http.StatusCreated || id == "" {
		t.Fatalf("create session: %d %v\n%s", status, session, s.output)
	}
	hash, _ := session["policy_hash"].(string)
	if session["runtime"] == "" || session["expires_at"] == nil || len(hash) != 64 {
		t.Errorf("session: %v", session)
	}

	// 2) Upload files (multipart)
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="files"; filename="main.py"`}, "Content-Type": {"text/x-python"},
	})
	if err != nil {
		t.Fatal(err)
	}
	program := "print(\"Hello from sandbox\")\n"
	if _, err := io.WriteString(part, program); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	status, upload := s.ask(http.MethodPost, api+"/sessions/"+id+"/files", &form, "Content-Type: "+w.FormDataContentType())
	if status != http.StatusOK || upload["session_id"] != id || upload["bytes_received"] != float64(len(program)) ||
		upload["file_count"] != float64(1) {
		t.Fatalf("upload: %d %v", status, upload)
	}

	// 3) Start run (referencing session)
	request := map[string]any{
		"spec_version": "1.0", "session_id": id, "command": []string{"python3", "main.py"}, "timeout_sec": 20,
	}
	status, run := s.ask(http.MethodPost, api+"/runs", request, "Idempotency-Key: 5c2d1a9a")
	runID, _ := run["run_id"].(string)
	stream, _ := run["log_stream_url"].(string)
	if status != http.StatusOK && status != http.StatusAccepted || runID == "" || run["phase"] == "" ||
		!strings.HasPrefix(stream, "ws://") || !strings.Contains(stream, "/runs/"+runID+"/stream") {
		t.Fatalf("start run: %d %v", status, run)
	}
	if _, again := s.ask(http.MethodPost, api+"/runs", request, "Idempotency-Key: 5c2d1a9a"); again["run_id"] != runID {
		t.Errorf("the same request again made another run: %v", again)
	}

	// 4) Stream logs (WS), with a client that shares no code with belljar
	frames := follow(t, s, stream)
	var out bytes.Buffer
	for i, f := range frames {
		if f.Seq != uint64(i+1) {
			t.Errorf("frame %d has seq %d", i+1, f.Seq)
		}
		if f.Type == "stdout" {
			out.WriteString(f.text(t))
		}
	}
	if out.String() != "Hello from sandbox\n" {
		t.Errorf("output %q", &out)
	}
	last := frames[len(frames)-1]
	if last.Event != "end" || last.Data.(map[string]any)["exit_code"] != float64(0) {
		t.Errorf("last frame %+v", last)
	}

	// 4a) Get run status
	status, run = s.ask(http.MethodGet, api+"/runs/"+runID, nil)
	if status != http.StatusOK || run["id"] != runID || run["phase"] != "completed" || run["exit_code"] != float64(0) ||
		run["spec_version"] != "1.0" || run["policy_hash"] != hash {
		t.Errorf("status: %d %v", status, run)
	}

	// 5) List artifacts 6) Download artifact (with Range)
	status, run = s.ask(http.MethodPost, api+"/runs?wait=600s", map[string]any{
		"spec_version": "1.0", "session_id": id, "capture_patterns": []string{"results.json"},
		"command": []string{"sh", "-c", "printf '{\"answer\": 42}' >results.json"},
	})
	if status != http.StatusOK || run["phase"] != "completed" {
		t.Fatalf("run with an artifact: %d %v", status, run)
	}
	runID = run["run_id"].(string)
	_, list := s.ask(http.MethodGet, api+"/runs/"+runID+"/artifacts", nil)
	items, _ := list["items"].([]any)
	if len(items) != 1 {
		t.Fatalf("artifacts: %v", list)
	}
	item := items[0].(map[string]any)
	if item["path"] != "results.json" || item["size"] != float64(14) ||
		item["download_url"] != api+"/runs/"+runID+"/artifacts/results.json" {
		t.Errorf("artifact: %v", item)
	}
	req, err := http.NewRequest(http.MethodGet, s.URL+item["download_url"].(string), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-KEY", s.Key)
	req.Header.Set("Range", "bytes=0-8")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusPartialContent || string(body) != `{"answer"` ||
		resp.Header.Get("Content-Range") != "bytes 0-8/14" || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		t.Errorf("range: %v %d %q %v", err, resp.StatusCode, body, resp.Header)
	}

	if status, answer := s.ask(http.MethodDelete, api+"/sessions/"+id, nil); status >= 300 {
		t.Errorf("delete: %d %v", status, answer)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("the server ended with %d\n%s", code, s.output)
	}
}

// frame is a message of a stream.
type frame struct {
	Seq      uint64 `json:"seq"`
	Type     string `json:"type"`
	Event    string `json:"event"`
	Encoding string `json:"encoding"`
	Data     any    `json:"data"`
}

func (f frame) text(t *testing.T) string {
	t.Helper()
	text, _ := f.Data.(string)
	if f.Encoding == "base64" {
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Errorf("frame %d: %v", f.Seq, err)
		}
		return string(raw)
	}
	return text
}

// follow reads a stream to its end with the Python client.
func follow(t *testing.T, s *server, url string, args ...string) []frame {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", append([]string{
		"wsclient/client.py", "--url", url, "--header", "X-API-KEY: " + s.Key,
	}, args...)...)
	var output strings.Builder
	cmd.Stderr = &output
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("follow %s: %v\n%s%s", url, err, out, &output)
	}
	var frames []frame
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var f frame
		err := dec.Decode(&f)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("stream: %v\n%s", err, out)
		}
		if f.Seq > 0 {
			frames = append(frames, f)
		}
	}
	if len(frames) == 0 {
		t.Fatalf("no frames from %s\n%s", url, &output)
	}
	return frames
}

// TestElsewhere requests paths that do not exist.
func TestElsewhere(t *testing.T) {
	s := serve(t, t.TempDir())
	if status, answer := s.ask(http.MethodGet, "/nowhere", nil); status != http.StatusNotFound || answer["error"] == nil {
		t.Errorf("a path that nothing answers: %d %v", status, answer)
	}
	for accept, want := range map[string]string{"*/*": "/docs", "text/html": "/webui/"} {
		if status, path, _ := s.page("/", accept); status != http.StatusOK || path != want {
			t.Errorf("the root leads %s to %s %d", accept, path, status)
		}
	}
	// The page is only at its own paths.
	mark := `<meta name="csp-nonce"`
	if status, _, body := s.page("/webui/sandbox/runs/x", "text/html"); status != http.StatusOK || !strings.Contains(body, mark) {
		t.Errorf("the page: %d %s", status, body)
	}
	for _, path := range []string{api + "/webui", api + "/me", "/v1/sessions", "/v1/webui", "/mcp", "/thread/x", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/webui/../healthz"} {
		if _, _, body := s.page(path, "text/html"); strings.Contains(body, mark) {
			t.Errorf("%s is the page", path)
		}
	}
}

// TestNoPage starts a server without the page.
func TestNoPage(t *testing.T) {
	s := serve(t, t.TempDir(), "--set", "webui=false")
	if status, path, _ := s.page("/", "text/html"); status != http.StatusOK || path != "/docs" {
		t.Errorf("the root leads to %s %d", path, status)
	}
	if status, _, body := s.page("/webui/", "text/html"); status != http.StatusNotFound {
		t.Errorf("the page: %d %s", status, body)
	}
}

// page requests a path as a browser does, without a key, and returns the final path.
func (s *server) page(path, accept string) (status int, at, body string) {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, resp.Request.URL.Path, string(text)
}
