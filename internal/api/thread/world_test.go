//go:build linux

package thread_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/thread"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/test/apitest"
)

// patience limits every wait of a test.
const patience = 5 * time.Minute

// world is the door with the real service and the fake runtime.
type world struct {
	t       *testing.T
	url     string
	runtime *fake.Runtime
	service *service.Service
	log     *journal
	clock   *manualClock
}

// journal records log lines.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) Enabled(context.Context, slog.Level) bool { return true }
func (j *journal) WithAttrs([]slog.Attr) slog.Handler       { return j }
func (j *journal) WithGroup(string) slog.Handler            { return j }
func (j *journal) Handle(_ context.Context, r slog.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, r.Message)
	return nil
}

// has returns the lines of an event.
func (j *journal) has(name string) (found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range j.lines {
		if strings.HasPrefix(l, "[SANDBOX] event="+name+" ") {
			found = append(found, l)
		}
	}
	return found
}

// manualClock is a clock that the test advances.
type manualClock struct {
	mu    sync.Mutex
	ahead time.Duration
	due   map[*time.Time]func()
}

func (h *manualClock) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.ahead)
}

func (h *manualClock) AfterFunc(d time.Duration, f func()) func() bool {
	at := h.Now().Add(d)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.due == nil {
		h.due = map[*time.Time]func(){}
	}
	key := &at
	h.due[key] = f
	timer := time.AfterFunc(d, func() {
		if h.take(key) {
			f()
		}
	})
	return func() bool {
		timer.Stop()
		return h.take(key)
	}
}

func (h *manualClock) take(key *time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.due[key]
	delete(h.due, key)
	return ok
}

// pass advances the clock.
func (h *manualClock) pass(d time.Duration) {
	h.mu.Lock()
	h.ahead += d
	now := time.Now().Add(h.ahead)
	var due []func()
	for at, f := range h.due {
		if !at.After(now) {
			delete(h.due, at)
			due = append(due, f)
		}
	}
	h.mu.Unlock()
	for _, f := range due {
		f()
	}
}

// await waits for lines of an event and returns them, for events that no request causes.
func (j *journal) await(t *testing.T, name string) []string {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) { // polls the condition
		if found := j.has(name); len(found) > 0 {
			return found
		}
		if time.Now().After(deadline) {
			t.Fatalf("no event for %s", name)
		}
	}
}

func newWorld(t *testing.T, change func(*thread.Options)) *world {
	t.Helper()
	w := &world{t: t, log: &journal{}, clock: &manualClock{}}
	log := slog.New(w.log)
	in := apitest.NewWorld(t, nil, func(o *service.Options) {
		o.Clock, o.MaxSessions, o.Events = w.clock, -1, thread.Watch{Logger: log, Events: event.Sinks(nil)}
	})
	w.runtime, w.service = in.Runtime, in.Service
	guard, err := thread.NewGuard(append(thread.AllowedCommands(), "sleep", "exit", "printf", "cd", "mkdir", "touch"), nil)
	if err != nil {
		t.Fatal(err)
	}
	o := thread.Options{
		Engine: in.Service, Guard: guard, TempDir: in.Dir, Logger: log, Image: runtime.HostRef, Now: w.clock.Now, Auth: apitest.Callers(),
	}
	if change != nil {
		change(&o)
	}
	door, err := thread.New(o)
	if err != nil {
		t.Fatal(err)
	}
	w.url = apitest.Serve(t, api.EdgeOptions{}, door).URL
	return w
}

// answer is a status and a body.
type answer struct {
	status int
	header http.Header
	raw    string
	body   map[string]any
}

func (w *world) send(key, method, path, contentType string, body io.Reader) answer {
	w.t.Helper()
	req, err := http.NewRequest(method, w.url+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, raw: string(raw)}
	_ = json.Unmarshal(raw, &a.body) // files are not JSON
	return a
}

func (w *world) post(name, body string) answer {
	w.t.Helper()
	return w.send("alice", "POST", "/thread/"+name, "application/json", strings.NewReader(body))
}

func (w *world) get(name string) answer {
	w.t.Helper()
	return w.send("alice", "GET", "/thread/"+name, "", nil)
}

// open creates a thread's session.
func (w *world) open(name string) string {
	w.t.Helper()
	a := w.post("create_session", `{"user_id": "user_abc123", "thread_id": "`+name+`", "timeout_minutes": 30}`)
	if a.status != http.StatusOK {
		w.t.Fatalf("create_session: %d %s", a.status, a.raw)
	}
	return a.body["session_id"].(string)
}

// run executes a command.
func (w *world) run(session, command string) answer {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{"session_id": session, "command": command, "timeout": 300})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.post("execute", string(body))
}

// field is one part of a form.
type field struct{ name, filename, value string }

func (w *world) upload(fields ...field) answer {
	w.t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for _, f := range fields {
		var part io.Writer
		var err error
		if f.name == "file" {
			part, err = form.CreateFormFile(f.name, f.filename)
		} else {
			part, err = form.CreateFormField(f.name)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := io.WriteString(part, f.value); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		w.t.Fatal(err)
	}
	return w.send("alice", "POST", "/thread/upload_file", form.FormDataContentType(), &b)
}

// want checks a status and fields of the body.
func (a answer) want(t *testing.T, status int, fields map[string]any) {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.raw)
	}
	for name, value := range fields {
		if n, ok := value.(int); ok {
			value = float64(n)
		}
		if a.body[name] != value {
			t.Errorf("%s is %v, want %v, in %s", name, a.body[name], value, a.raw)
		}
	}
}
