package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/test/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

var noon = time.Date(2025, 10, 28, 12, 0, 1, 0, time.UTC)

// clock is a clock that only the test advances.
type clock struct{ now atomic.Pointer[time.Time] }

func newClock(t time.Time) *clock {
	c := &clock{}
	c.set(t)
	return c
}

func (c *clock) set(t time.Time) { c.now.Store(&t) }
func (c *clock) read() time.Time { return *c.now.Load() }

func open(t *testing.T, o Options) *Trail {
	t.Helper()
	if o.Path == "" {
		o.Path = t.TempDir()
	}
	if o.Now == nil {
		o.Now = newClock(noon).read
	}
	trail, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { trail.Close() })
	return trail
}

// lines closes a trail and returns the lines of a day's file.
func lines(t *testing.T, trail *Trail, day string) (list []map[string]any) {
	t.Helper()
	if err := trail.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(trail.opts.Path, "audit-"+day+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.Lines(string(b)) {
		var l map[string]any
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		list = append(list, l)
	}
	return list
}

func sampleRun() *belljar.Run {
	return &belljar.Run{
		ID: "a1b2c3d4", UserID: "user_123", Phase: belljar.PhaseCompleted, ExitCode: new(0), SpecVersion: "1.0",
		Runtime: "docker", RuntimeVersion: "24.0.6", BaseImage: "python:3.11-slim", ImageDigest: "sha256:deadbeef",
		PolicyHash: "9f86d081884c7d659a2feaa0c55ad015", Command: []string{"secret", "command"},
		ResourceUsage: &belljar.ResourceUsage{
			CPUTimeSec: new(0.12), WallTimeSec: 1.02, PeakRSSMB: new(42.0), LogBytes: 128, ArtifactBytes: 2048,
			Limits: &belljar.Limits{CPU: 1, MemoryMB: 512, StartupTimeoutSec: 20, TimeoutSec: 60, Pids: 256},
		},
	}
}

// The example of the audit trail, field by field.
func TestExample(t *testing.T) {
	trail := open(t, Options{})
	trail.Record(event.Event{
		Name: event.RunCompleted, Time: noon, Caller: belljar.Caller{ID: "user_123", Source: "IDE"}, Run: sampleRun(),
	})
	want := map[string]any{
		"event": "sandbox.run.completed", "ts": "2025-10-28T12:00:01.000Z", "source": "IDE", "user_id": "user_123",
		"run_id": "a1b2c3d4", "runtime": "docker", "runtime_version": "24.0.6", "base_image": "python:3.11-slim",
		"image_digest": "sha256:deadbeef", "spec_version": "1.0", "policy_hash": "9f86d081884c7d659a2feaa0c55ad015",
		"phase": "completed", "exit_code": 0.0,
		"resource_usage": map[string]any{
			"cpu_time_sec": 0.12, "wall_time_sec": 1.02, "peak_rss_mb": 42.0, "log_bytes": 128.0, "artifact_bytes": 2048.0,
		},
		"limits": map[string]any{"cpu": 1.0, "memory_mb": 512.0, "startup_timeout_sec": 20.0, "timeout_sec": 60.0},
	}
	if diff := cmp.Diff([]map[string]any{want}, lines(t, trail, "20251028")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	info, err := os.Stat(filepath.Join(trail.opts.Path, "audit-20251028.jsonl"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestFields(t *testing.T) {
	caller := belljar.Caller{
		ID: "admin", Source: "MCP", Model: "m-1", ContextID: "thread-7", Address: "192.0.2.1", RequestID: "req", TraceID: "trace",
	}
	who := map[string]any{
		"ts": "2025-10-28T12:00:01.000Z", "source": "MCP", "model": "m-1", "context_id": "thread-7", "address": "192.0.2.1",
		"request_id": "req", "trace_id": "trace",
	}
	for _, test := range []struct {
		name  string
		event event.Event
		want  map[string]any
	}{
		{"another's run", event.Event{
			Name: event.RunKilled, Reason: "canceled_by_user", Took: 1500 * time.Millisecond,
			Run: &belljar.Run{
				ID: "r", UserID: "user", SessionID: "s", Phase: belljar.PhaseKilled, ReasonCode: belljar.ReasonCanceledByUser,
				Message: "canceled_by_user", ExitCode: new(143),
			},
		}, map[string]any{
			"event": "sandbox.run.killed", "user_id": "user", "actor_id": "admin", "run_id": "r", "session_id": "s", "phase": "killed",
			"reason_code": "canceled_by_user", "message": "canceled_by_user", "exit_code": 143.0, "took_sec": 1.5,
		}},
		{"session", event.Event{
			Name: event.SessionEnded, Reason: "expired",
			Session: &belljar.Session{
				ID: "s", UserID: "admin", State: belljar.SessionExpired, Runtime: "native", BaseImage: "host", PolicyHash: "h",
				SpecVersion: "1.0", Limits: belljar.Limits{CPU: 2, MemoryMB: 8, StartupTimeoutSec: 1, TimeoutSec: 2},
			},
		}, map[string]any{
			"event": "sandbox.session.ended", "user_id": "admin", "session_id": "s", "state": "expired", "runtime": "native",
			"base_image": "host", "policy_hash": "h", "spec_version": "1.0",
			"limits": map[string]any{"cpu": 2.0, "memory_mb": 8.0, "startup_timeout_sec": 1.0, "timeout_sec": 2.0},
		}},
		{"denied", event.Event{
			Name: event.Denied, Reason: "policy_denied", Component: "orchestrator",
			Err: &belljar.Error{Code: belljar.CodePolicyDenied, Message: "too much", Err: errors.New("password=hunter2")},
		}, map[string]any{
			"event": "sandbox.denied", "user_id": "admin", "reason": "policy_denied", "error_class": "policy_denied",
			"message": "too much", "component": "orchestrator",
		}},
		{"foreign error", event.Event{Name: event.AuthFailed, Err: errors.New("password=hunter2"), Kind: "token"}, map[string]any{
			"event": "sandbox.auth.failed", "user_id": "admin", "error_class": "internal", "kind": "token",
		}},
		{"upload", event.Event{
			Name: event.Uploaded, Count: 10, Files: 2, Detail: map[string]string{"x": "y"},
		}, map[string]any{
			"event": "sandbox.session.uploaded", "user_id": "admin", "bytes": 10.0, "files": 2.0, "detail": map[string]any{"x": "y"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			trail := open(t, Options{})
			test.event.Caller = caller
			trail.Record(test.event)
			maps.Copy(test.want, who)
			if diff := cmp.Diff([]map[string]any{test.want}, lines(t, trail, "20251028")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Every event goes to the trail or to the metrics, as the contract specifies.
func TestNames(t *testing.T) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "../event.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	trail := open(t, Options{})
	var want, got []string
	for _, decl := range parsed.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.CONST {
			continue
		}
		metric := strings.Contains(d.Doc.Text(), "metrics only")
		for _, spec := range d.Specs {
			name, err := strconv.Unquote(spec.(*ast.ValueSpec).Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			trail.Record(event.Event{Name: name})
			if !metric {
				want = append(want, name)
			}
		}
	}
	for _, l := range lines(t, trail, "20251028") {
		got = append(got, l["event"].(string))
	}
	if !slices.Equal(got, want) || len(want) < 10 {
		t.Errorf("in the trail: %q, want %q", got, want)
	}
}

// No caller waits for a slow trail, and the trail reports how many events are missing.
func TestLost(t *testing.T) {
	c := newClock(noon)
	var stuck atomic.Bool
	entered, free := make(chan struct{}, 1), make(chan struct{})
	trail := open(t, Options{Queue: 3, Now: func() time.Time {
		if stuck.CompareAndSwap(true, false) {
			entered <- struct{}{}
			<-free
		}
		return c.read()
	}})
	record := func(id string) {
		trail.Record(event.Event{Name: event.RunCreated, Time: noon, Run: &belljar.Run{ID: id}})
	}
	stuck.Store(true)
	record("0")
	<-entered // the writer has received it and is blocked
	for i := range 10 {
		record(fmt.Sprint(i + 1))
	}
	close(free)
	var got []string
	for _, l := range lines(t, trail, "20251028") {
		if l["event"] == Lost {
			got = append(got, fmt.Sprintf("%v lost", l["count"]))
		} else {
			got = append(got, l["run_id"].(string))
		}
	}
	first := []string{"0", "7 lost", "1", "2", "3"} // the count is taken before or after the queue is emptied
	second := []string{"0", "1", "2", "3", "7 lost"}
	if !slices.Equal(got, first) && !slices.Equal(got, second) {
		t.Errorf("lines %q", got)
	}
}

func TestRotation(t *testing.T) {
	c := newClock(noon)
	path := t.TempDir()
	for _, name := range []string{
		"audit-20250927.jsonl", "audit-20250928.jsonl", "audit-20251001.jsonl", "audit-2025.jsonl", "audit-20250101.jsonl.bak", "other",
	} {
		if err := os.WriteFile(filepath.Join(path, name), []byte("{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names := func() (list []string) {
		entries, err := os.ReadDir(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return list
	}
	trail := open(t, Options{Path: path, Now: c.read})
	want := []string{
		"audit-2025.jsonl", "audit-20250101.jsonl.bak", "audit-20250928.jsonl", "audit-20251001.jsonl", "audit-20251028.jsonl", "other",
	}
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("at start: %q", got)
	}
	trail.Record(event.Event{Name: event.RunCreated})
	if err := trail.Close(); err != nil {
		t.Fatal(err)
	}
	c.set(noon.AddDate(0, 0, 1))
	trail = open(t, Options{Path: path, Now: c.read})
	trail.Record(event.Event{Name: event.RunQueued})
	waitFor(t, trail)
	c.set(noon.AddDate(0, 0, 8))
	trail.Record(event.Event{Name: event.RunCompleted})
	if got := lines(t, trail, "20251105"); len(got) != 1 || got[0]["event"] != event.RunCompleted {
		t.Errorf("third day: %v", got)
	}
	for day, want := range map[string]string{"20251028": event.RunCreated, "20251029": event.RunQueued} {
		if got := lines(t, trail, day); len(got) != 1 || got[0]["event"] != want {
			t.Errorf("%s: %v", day, got)
		}
	}
	want = []string{
		"audit-2025.jsonl", "audit-20250101.jsonl.bak", "audit-20251028.jsonl", "audit-20251029.jsonl", "audit-20251105.jsonl", "other",
	}
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("in the end: %q", got)
	}
}

// waitFor returns when a trail has written the recorded events.
func waitFor(t *testing.T, trail *Trail) {
	t.Helper()
	file := filepath.Join(trail.opts.Path, "audit-"+trail.opts.Now().Format(dayFormat)+".jsonl")
	deadline := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if b, err := os.ReadFile(file); err == nil && bytes.HasSuffix(b, []byte("\n")) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("nothing is written")
		}
	}
}

// A line that a crash cut short does not damage the next.
func TestRagged(t *testing.T) {
	path := t.TempDir()
	file := filepath.Join(path, "audit-20251028.jsonl")
	if err := os.WriteFile(file, []byte("{\"event\":\"sandb"), 0o600); err != nil {
		t.Fatal(err)
	}
	trail := open(t, Options{Path: path})
	trail.Record(event.Event{Name: event.RunCreated})
	if err := trail.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Split(string(b), "\n")
	if len(all) != 3 || !strings.HasPrefix(all[1], `{"event":"sandbox.run.created"`) || all[2] != "" {
		t.Errorf("file: %q", b)
	}
}

func TestRedact(t *testing.T) {
	trail := open(t, Options{RedactPaths: true})
	detail := map[string]string{"path": "my/diary.txt", "note": "of my/diary.txt", "token_id": "t1"}
	trail.Record(event.Event{
		Name: event.ArtifactOpened, Detail: detail,
		Run: &belljar.Run{ID: "r", Message: `cannot run "diary \"x\".txt": no such file in /workspace/my, said 'sh'`},
	})
	got := lines(t, trail, "20251028")[0]
	h := hash("my/diary.txt")
	want := map[string]any{"path": h, "note": "of " + h, "token_id": "t1"}
	if diff := cmp.Diff(want, got["detail"]); diff != "" {
		t.Errorf("detail (-want +got):\n%s", diff)
	}
	message := got["message"].(string)
	if strings.Contains(message, "diary") || strings.Contains(message, "workspace") || !strings.Contains(message, ": no such file in sha256:") {
		t.Errorf("message %q", message)
	}
	if detail["path"] != "my/diary.txt" {
		t.Error("the event was changed")
	}
}

// The message of a run that could not start may repeat its command. That of one whose context could not continue does not.
func TestNoCommand(t *testing.T) {
	trail := open(t, Options{})
	run := sampleRun()
	run.Phase, run.ReasonCode, run.ExitCode, run.Message = belljar.PhaseFailed, belljar.ReasonExecFailed, nil, "the code cannot be executed again"
	trail.Record(event.Event{Name: event.RunFailed, Run: run, Reason: string(run.ReasonCode)})
	if got := lines(t, trail, noon.Format(dayFormat)); len(got) != 1 || got[0]["message"] != run.Message {
		t.Errorf("a replay: %v", got)
	}
	for _, redact := range []bool{false, true} {
		trail := open(t, Options{RedactPaths: redact})
		run := sampleRun()
		run.Phase, run.ReasonCode, run.ExitCode = belljar.PhaseFailed, belljar.ReasonExecFailed, new(127)
		run.Message = "curl -H sk-live-1: not found in the sandbox"
		trail.Record(event.Event{Name: event.RunFailed, Run: run, Reason: string(run.ReasonCode)})
		got := lines(t, trail, noon.Format(dayFormat))
		if len(got) != 1 || got[0]["message"] != nil || got[0]["reason_code"] != "exec_failed" || got[0]["exit_code"] != 127.0 {
			t.Errorf("redact %t: %v", redact, got)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add(`"a" 'b' /c d/e "`)
	f.Add("\"\\")
	f.Add("`/'\"")
	f.Fuzz(func(t *testing.T, message string) {
		if got := redactMessage(message); strings.Contains(got, "/") {
			t.Errorf("%q became %q", message, got)
		}
	})
}

// A value that a caller chooses cannot make a line too long or add a line.
func TestHostile(t *testing.T) {
	trail := open(t, Options{})
	long := strings.Repeat("é\n", 1<<20)
	trail.Record(event.Event{
		Name: event.RunCreated, Caller: belljar.Caller{Source: long, Model: long, ContextID: "\xff\x00<"},
		Detail: map[string]string{"path": long},
	})
	got := lines(t, trail, "20251028")
	if len(got) != 1 || len(got[0]["source"].(string)) > 2*longest || len(got[0]["detail"].(map[string]any)["path"].(string)) > 2*longest {
		t.Errorf("%d lines", len(got))
	}
}

func TestManyAtOnce(t *testing.T) {
	trail := open(t, Options{Queue: 8})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				trail.Record(event.Event{Name: event.RunCreated})
			}
		})
	}
	all.Wait()
	total := 0
	for _, l := range lines(t, trail, "20251028") {
		if l["event"] == Lost {
			total += int(l["count"].(float64))
		} else {
			total++
		}
	}
	if total != 1600 {
		t.Errorf("%d events written or counted, want 1600", total)
	}
	trail.Record(event.Event{Name: event.RunCreated}) // has no effect
}

func TestUnwritable(t *testing.T) {
	if _, err := Open(Options{}); err == nil {
		t.Error("no folder is a folder")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Path: file}); err == nil {
		t.Error("a file is a folder")
	}
}

// If a day's file cannot be created, only its lines are lost, and they are counted.
func TestFailureAndRecovery(t *testing.T) {
	c := newClock(noon)
	var output bytes.Buffer
	path := t.TempDir()
	trail := open(t, Options{Path: path, Now: c.read, Logger: slog.New(slog.NewTextHandler(&output, nil))})
	obstacle := filepath.Join(path, "audit-20251029.jsonl")
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	c.set(noon.AddDate(0, 0, 1))
	for range 3 {
		trail.Record(event.Event{Name: event.RunCreated})
	}
	waitUntil(t, func() bool { return len(trail.queue) == 0 && trail.lost.Load() == 3 })
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	trail.Record(event.Event{Name: event.RunQueued})
	got := lines(t, trail, "20251029")
	if len(got) != 2 || got[0]["event"] != event.RunQueued || got[1]["event"] != Lost || got[1]["count"] != 3.0 {
		t.Errorf("lines %v", got)
	}
	if n := strings.Count(output.String(), "level=ERROR"); n != 1 {
		t.Errorf("logged %d times: %s", n, output.String())
	}
}

func waitUntil(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it does not happen")
		}
	}
}
