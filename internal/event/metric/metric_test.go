package metric

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
)

func newCounter() *Counter {
	return New(Options{Version: "v1", Commit: "abc", Runtimes: []string{"native", "docker"}})
}

// value returns the value of a series in Prometheus notation; -1 if there is none.
func value(t *testing.T, c *Counter, series string) float64 {
	t.Helper()
	for _, all := range snapshot(t, c) {
		for name, v := range all {
			if name == series {
				return v
			}
		}
	}
	return -1
}

func snapshot(t *testing.T, c *Counter) map[string]map[string]float64 {
	t.Helper()
	all, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	flat := map[string]map[string]float64{}
	for name, series := range all {
		flat[name] = map[string]float64{}
		for _, s := range series {
			var labels []string
			for _, l := range []string{"mode", "component", "runtime", "language", "outcome", "reason", "result", "kind", "phase", "state", "method", "route", "status"} {
				if v, ok := s.Labels[l]; ok {
					labels = append(labels, l+"="+v)
				}
			}
			flat[name][name+"{"+strings.Join(labels, ",")+"}"] = s.Value
		}
	}
	return flat
}

func TestEveryMetricOfTheSpecification(t *testing.T) {
	c := newCounter()
	begun := time.Date(2025, 10, 28, 12, 0, 0, 0, time.UTC)
	ended := begun.Add(1500 * time.Millisecond)
	zero := 0
	run := belljar.Run{ID: "r1", Runtime: "docker", StartedAt: &begun, FinishedAt: &ended, ExitCode: &zero}
	late := belljar.Run{ID: "r2", Runtime: "docker", ReasonCode: belljar.ReasonExecutionTimeout}
	for _, e := range []event.Event{
		{Name: event.SessionCreated, Session: &belljar.Session{ID: "s1", Runtime: "native"}},
		{Name: event.SessionRevived, Session: &belljar.Session{ID: "s2", Runtime: "native"}},
		{Name: event.SessionResumed, Session: &belljar.Session{ID: "s2", Runtime: "native"}},
		{Name: event.SessionEnded, Session: &belljar.Session{ID: "s2", Runtime: "native"}, Reason: "crashed", Took: 5 * time.Second},
		{Name: event.TerminalOpened, Runtime: "native"},
		{Name: event.TerminalEnded, Reason: "closed detached"},
		{Name: event.TerminalRefused, Reason: "not_found"},
		{Name: event.WorkspaceOpened, Kind: "sandbox", Took: time.Second},
		{Name: event.WorkspaceOpened, Kind: "remote", Reason: "runtime_unavailable"},
		{Name: event.RunCreated, Run: &run},
		{Name: event.RunQueued, Run: &run},
		{Name: event.RunStarting, Run: &run, Took: 2 * time.Second},
		{Name: event.RunRunning, Run: &run, Took: 3 * time.Second},
		{Name: event.RunCompleted, Run: &run},
		{Name: event.RunTimedOut, Run: &late, Took: 4 * time.Second},
		{Name: event.QueueFull, Runtime: "docker"},
		{Name: event.QueueTTLExpired, Runtime: "docker"},
		{Name: event.Uploaded, Kind: "tar", Count: 2048, Files: 3},
		{Name: event.InlineFiles, Kind: "inline", Count: 5, Files: 2},
		{Name: event.LogBytes, Runtime: "native", Count: 100},
		{Name: event.LogTruncated, Component: "ws", Reason: "log_cap"},
		{Name: event.WarmStart, Runtime: "native", Reason: "hit", Count: 1},
		{Name: event.StreamOpened, Component: "ws"},
		{Name: event.StreamClosed, Component: "sse"},
		{Name: event.StreamDropped, Component: "ws", Reason: "drop_oldest"},
		{Name: event.HeartbeatSent, Component: "ws"},
		{Name: event.Request, Kind: "GET /api/v1/sandbox/runs/{id}", Reason: "200", Took: time.Second},
		{Name: event.Request, Kind: "GET /api/v1/sandbox/runs/{id}/stream", Reason: "101", Took: time.Hour},
		{Name: event.AuthFailed, Reason: "unknown_key"},
		{Name: event.Denied, Reason: "policy_denied"},
		{Name: "something.else"},
	} {
		c.Record(e)
	}
	for series, want := range map[string]float64{
		"sandbox_sessions_created_total{runtime=native}":                                                  1,
		"sandbox_sessions{runtime=native}":                                                                1,
		"sandbox_sessions_resumed_total{runtime=native}":                                                  1,
		"sandbox_sessions_ended_total{runtime=native,state=crashed}":                                      1,
		"sandbox_session_lifetime_seconds_sum{runtime=native}":                                            5,
		"sandbox_runs_started_total{runtime=docker}":                                                      1,
		"sandbox_runs_completed_total{runtime=docker,outcome=completed,reason=exit_code_0}":               1,
		"sandbox_runs_completed_total{runtime=docker,outcome=timed_out,reason=execution_timeout}":         1,
		"sandbox_run_duration_seconds_sum{runtime=docker,outcome=completed,reason=exit_code_0}":           1.5,
		"sandbox_run_duration_seconds_count{runtime=docker,outcome=completed,reason=exit_code_0}":         1,
		"sandbox_run_duration_seconds_sum{runtime=docker,outcome=timed_out,reason=execution_timeout}":     4,
		"sandbox_queue_wait_seconds_sum{runtime=docker}":                                                  2,
		"sandbox_start_latency_seconds_sum{runtime=docker}":                                               3,
		"sandbox_queue_full_total{component=orchestrator,runtime=docker,reason=queue_full}":               1,
		"sandbox_queue_ttl_expired_total{component=orchestrator,runtime=docker,reason=queue_ttl_expired}": 1,
		"sandbox_upload_bytes_total{kind=tar}":                                                            2048,
		"sandbox_upload_files_total{kind=tar}":                                                            3,
		"sandbox_upload_bytes_total{kind=inline}":                                                         5,
		"sandbox_upload_files_total{kind=inline}":                                                         2,
		"sandbox_log_bytes_total{runtime=native}":                                                         100,
		"sandbox_log_truncations_total{component=ws,reason=log_cap}":                                      1,
		"sandbox_warm_starts_total{runtime=native,result=hit}":                                            1,
		"sandbox_ws_connections_opened_total{component=ws}":                                               1,
		"sandbox_ws_disconnects_total{component=sse}":                                                     1,
		"sandbox_ws_queue_drops_total{component=ws,reason=drop_oldest}":                                   1,
		"sandbox_ws_heartbeats_sent_total{component=ws}":                                                  1,
		"sandbox_runs{phase=running}":                                                                     0,
		"sandbox_http_requests_total{method=GET,route=/api/v1/sandbox/runs/{id},status=200}":              1,
		"sandbox_http_requests_total{method=GET,route=/api/v1/sandbox/runs/{id}/stream,status=101}":       1,
		"sandbox_http_request_duration_seconds_count{method=GET,route=/api/v1/sandbox/runs/{id}}":         1,
		"sandbox_http_request_duration_seconds_count{method=GET,route=/api/v1/sandbox/runs/{id}/stream}":  -1,
		"sandbox_auth_failures_total{reason=unknown_key}":                                                 1,
		"sandbox_terminals_opened_total{runtime=native}":                                                  1,
		"sandbox_terminals_ended_total{reason=closed}":                                                    1,
		"sandbox_terminal_attach_failures_total{reason=not_found}":                                        1,
		"sandbox_workspace_ready_seconds_sum{mode=sandbox}":                                               1,
		"sandbox_workspace_failures_total{mode=remote,reason=runtime_unavailable}":                        1,
		"sandbox_denials_total{reason=policy_denied}":                                                     1,
	} {
		if got := value(t, c, series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
}

func TestGaugesFollowRuns(t *testing.T) {
	c := newCounter()
	at := func(phase string) float64 { return value(t, c, "sandbox_runs{phase="+phase+"}") }
	run := belljar.Run{ID: "r", Runtime: "native"}
	steps := []struct{ name, phase string }{
		{event.RunQueued, "queued"}, {event.RunStarting, "starting"}, {event.RunRunning, "running"}, {event.RunKilled, ""},
	}
	for _, s := range steps {
		c.Record(event.Event{Name: s.name, Run: &run})
		for _, phase := range phases() {
			want := 0.0
			if string(phase) == s.phase {
				want = 1
			}
			if got := at(string(phase)); got != want {
				t.Errorf("after %s there are %v runs %s", s.name, got, phase)
			}
		}
	}
	// Ends without a recorded start, and repeated ends, as after a restart.
	c.Record(event.Event{Name: event.RunFailed, Run: &run})
	c.Record(event.Event{Name: event.SessionEnded, Session: &belljar.Session{ID: "s"}})
	for _, phase := range phases() {
		if got := at(string(phase)); got != 0 {
			t.Errorf("%v runs %s of none", got, phase)
		}
	}
	if got := value(t, c, "sandbox_sessions{runtime=native}"); got != 0 {
		t.Errorf("%v sessions of none", got)
	}
}

func TestFollowsABoundedNumber(t *testing.T) {
	c := newCounter()
	c.live.most = 2
	for _, id := range []string{"a", "b", "c"} {
		c.Record(event.Event{Name: event.RunRunning, Run: &belljar.Run{ID: id}})
	}
	if got := value(t, c, "sandbox_runs{phase=running}"); got != 2 {
		t.Errorf("%v runs", got)
	}
	for _, id := range []string{"a", "b", "c"} {
		c.Record(event.Event{Name: event.RunCompleted, Run: &belljar.Run{ID: id}})
	}
	if got := value(t, c, "sandbox_runs{phase=running}"); got != 0 {
		t.Errorf("%v runs", got)
	}
}

// Each reason that the service uses has its own label value.
func TestReasonsHaveLabels(t *testing.T) {
	for name, reasons := range map[string][]string{
		"sandbox_queue_full_total{component=orchestrator,runtime=native,reason=%s}": {"queue_full", "node_memory", "requests_too_large"},
		"sandbox_log_truncations_total{component=orchestrator,reason=%s}":           {"log_cap", "log_quota", "disk_full", "log_failed", "log_damaged"},
		"sandbox_auth_failures_total{reason=%s}":                                    {"wrong_code", "forged_login", "ended_login", "expired_login", "revoked", "unauthorized"},
		"sandbox_contexts_created_total{runtime=native,language=%s}":                {"python", "ipython", "javascript", "bash"},
	} {
		c := newCounter()
		for _, reason := range reasons {
			switch {
			case strings.HasPrefix(name, "sandbox_queue"):
				c.Record(event.Event{Name: event.QueueFull, Runtime: "native", Reason: reason})
			case strings.HasPrefix(name, "sandbox_log"):
				c.Record(event.Event{Name: event.LogTruncated, Reason: reason})
			case strings.HasPrefix(name, "sandbox_auth"):
				c.Record(event.Event{Name: event.AuthFailed, Reason: reason})
			default:
				c.Record(event.Event{Name: event.ContextCreated, Runtime: "native", Kind: reason})
			}
			if series := fmt.Sprintf(name, reason); value(t, c, series) != 1 {
				t.Errorf("no %s", series)
			}
		}
	}
}

func TestLabelsAreBounded(t *testing.T) {
	c := newCounter()
	for i := range 2000 {
		evil := fmt.Sprintf("evil-%d", i)
		run := belljar.Run{ID: evil, Runtime: evil, ReasonCode: belljar.Reason(evil)}
		for _, e := range []event.Event{
			{Name: event.RunCreated, Run: &run}, {Name: event.RunFailed, Run: &run}, {Name: event.SessionCreated, Runtime: evil},
			{Name: event.QueueFull, Component: evil, Runtime: evil, Reason: evil}, {Name: event.Uploaded, Kind: evil},
			{Name: event.LogTruncated, Component: evil, Reason: evil}, {Name: event.StreamDropped, Component: evil, Reason: evil},
			{Name: event.AuthFailed, Reason: evil}, {Name: event.Denied, Reason: evil},
			{Name: event.Request, Kind: evil + " /" + evil, Reason: evil}, {Name: event.Request, Kind: evil, Reason: "999"},
		} {
			c.Record(e)
		}
	}
	series := 0
	for name, all := range snapshot(t, c) {
		series += len(all)
		if !strings.HasPrefix(name, "sandbox_http_") && len(all) > 10 {
			t.Errorf("%s has %d series", name, len(all))
		}
	}
	if series > 4*(maxRoutes+50) {
		t.Errorf("%d series in all", series)
	}
	if got := value(t, c, "sandbox_runs_started_total{runtime=other}"); got != 2000 {
		t.Errorf("unknown runtimes count %v", got)
	}
}

func TestHandler(t *testing.T) {
	c := newCounter()
	w := httptest.NewRecorder()
	c.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(w.Body)
	if err != nil || w.Code != 200 {
		t.Fatal(w.Code, err)
	}
	for _, want := range []string{
		`belljar_build_info{commit="abc",goversion="go`, "go_goroutines ", "process_start_time_seconds ",
		`sandbox_runs_started_total{runtime="native"} 0`, `sandbox_runs{phase="queued"} 0`,
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
}

func TestSnapshotIsTheSpecificationsJSON(t *testing.T) {
	c := newCounter()
	c.Record(event.Event{Name: event.QueueFull, Runtime: "docker", Component: "orchestrator", Reason: "queue_full"})
	all, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(all["sandbox_queue_full_total"])
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"labels":{"component":"orchestrator","reason":"queue_full","runtime":"docker"},"value":1}]`
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Error(diff)
	}
	for name := range all {
		if !strings.HasPrefix(name, "sandbox_") {
			t.Errorf("%s is no metric of ours", name)
		}
	}
}

func TestTwoCountersDoNotMeet(t *testing.T) {
	a, b := newCounter(), newCounter()
	a.Record(event.Event{Name: event.RunCreated, Runtime: "native"})
	if got := value(t, b, "sandbox_runs_started_total{runtime=native}"); got != 0 {
		t.Errorf("the other counts %v", got)
	}
}

func TestRecordFromManySides(t *testing.T) {
	c := newCounter()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 200 {
				run := belljar.Run{ID: fmt.Sprint(i, "-", j), Runtime: "native"}
				for _, name := range []string{event.RunCreated, event.RunQueued, event.RunStarting, event.RunRunning, event.RunCompleted} {
					c.Record(event.Event{Name: name, Run: &run})
				}
			}
		})
	}
	all.Wait()
	if got := value(t, c, "sandbox_runs_completed_total{runtime=native,outcome=completed,reason=exit_code_0}"); got != 1600 {
		t.Errorf("%v runs", got)
	}
	for _, phase := range phases() {
		if got := value(t, c, "sandbox_runs{phase="+string(phase)+"}"); got != 0 {
			t.Errorf("%v still %s", got, phase)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	c := newCounter()
	run := belljar.Run{ID: "r", Runtime: "native"}
	b.ReportAllocs()
	for b.Loop() {
		for _, name := range []string{event.RunCreated, event.RunStarting, event.RunRunning, event.LogBytes, event.RunCompleted} {
			c.Record(event.Event{Name: name, Run: &run})
		}
	}
}

// TestReasons checks that runs are counted by each possible reason.
func TestReasons(t *testing.T) {
	source, err := os.ReadFile("../../../phase.go")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^\tReason\w+ +Reason = "(\w+)"`).FindAllSubmatch(source, -1)
	if len(all) == 0 {
		t.Fatal("no reasons found")
	}
	for _, m := range all {
		if reason := string(m[1]); reasons().or(reason, other) != reason {
			t.Errorf("%s is counted as %s", reason, other)
		}
	}
}
