//go:build linux

package wsclient

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/api/stream"
	blobs "github.com/belljar/belljar/internal/blob/dir"
	logs "github.com/belljar/belljar/internal/logbook/memory"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service"
	"github.com/belljar/belljar/internal/service/stdin"
	store "github.com/belljar/belljar/internal/store/memory"
)

// patience bounds every wait of a test.
const patience = 10 * time.Minute

// ample returns limits that no test here reaches.
func ample() belljar.Limits {
	return belljar.Limits{NProc: 4096, StartupTimeoutSec: 600, TimeoutSec: 600, GraceSec: 0.2}
}

// key is the key that this server accepts.
type key string

func (k key) Authenticate(r *http.Request) (belljar.Caller, error) {
	if r.Header.Get("X-API-KEY") != string(k) {
		return belljar.Caller{}, &belljar.Error{Code: belljar.CodeUnauthorized, Message: "key is not valid"}
	}
	return service.Local(), nil
}

// server is the streaming door over the real service.
type server struct {
	t    testing.TB
	runs belljar.Runs
	door *stream.Door
	url  string // ws://host:port
}

func newServer(t testing.TB) *server {
	t.Helper()
	rt := fake.New(fake.Options{Dir: t.TempDir()})
	kept, err := blobs.Open(blobs.Options{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := service.New(service.Options{
		Runtimes: []runtime.Runtime{rt}, Store: store.New(), Logs: logs.New(), Blobs: kept,
		Limits: ample(), Stdin: stdin.Limits{IdleTimeoutSec: 600}, Require: []string{},
	})
	if err != nil {
		t.Fatal(err)
	}
	door, err := stream.New(stream.Options{Engine: s, Auth: key("secret"), Secret: bytes.Repeat([]byte("k"), 32), SignedURLs: true})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	door.Register(mux)
	web := httptest.NewServer(mux)
	t.Cleanup(func() {
		for _, c := range []io.Closer{door, s, kept, rt} {
			if err := c.Close(); err != nil {
				t.Errorf("close %T: %v", c, err)
			}
		}
		web.Close()
	})
	return &server{t: t, runs: s.As(service.Local()).Runs(), door: door, url: "ws" + strings.TrimPrefix(web.URL, "http")}
}

// start starts a shell script.
func (s *server) start(script string, change ...func(*belljar.RunSpec)) belljar.Run {
	s.t.Helper()
	req := belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: "1.1", BaseImage: "host", Command: []string{"/bin/sh", "-c", script},
	}}
	for _, f := range change {
		f(&req.RunSpec)
	}
	run, err := s.runs.Start(s.t.Context(), req)
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

func interactive(spec *belljar.RunSpec) { spec.Interactive = true }

// stream returns the URL of a run's stream.
func (s *server) stream(id string) string { return s.url + api.Prefix + "/runs/" + id + "/stream" }

// received is the output of the client.
type received struct {
	frames  []belljar.Frame // except notes
	notes   []belljar.Frame
	remarks []remark
	code    int // exit status
}

// remark is a line with the client's own messages.
type remark struct {
	Client string
	Code   int
	Status int
	Reason string
}

// output joins the program's output.
func (h received) output() string {
	var b strings.Builder
	for _, f := range h.frames {
		b.Write(f.Output)
	}
	return b.String()
}

// client runs the client to its end. react, if set, receives every frame and may write to the program.
func (s *server) client(react func(f belljar.Frame, stdin io.Writer), args ...string) received {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	// Debian's interpreter: another one on PATH does not have Debian's packages.
	cmd := exec.CommandContext(ctx, "/usr/bin/python3", append([]string{"client.py", "--backoff", "0.01"}, args...)...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	var h received
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r remark
		if err := json.Unmarshal(lines.Bytes(), &r); err == nil && r.Client != "" {
			h.remarks = append(h.remarks, r)
			continue
		}
		var f belljar.Frame
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			s.t.Errorf("line %.200q: %v", lines.Text(), err)
		}
		if f.Event == belljar.EventResume || f.Event == belljar.EventStdinClosed {
			h.notes = append(h.notes, f)
		} else {
			h.frames = append(h.frames, f)
		}
		if react != nil {
			react(f, stdin)
		}
	}
	stdin.Close()
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || complaint.Len() > 0 {
		s.t.Fatalf("client: %v\n%s", err, complaint.String())
	}
	h.code = cmd.ProcessState.ExitCode()
	return h
}

// whole checks that a client received a complete log: every frame once.
func (h received) whole(t *testing.T) {
	t.Helper()
	for i, f := range h.frames {
		if f.Seq != uint64(i+1) {
			t.Fatalf("frame %d has seq %d", i+1, f.Seq)
		}
	}
	if len(h.frames) == 0 || h.frames[len(h.frames)-1].Event != belljar.EventEnd || h.code != 0 {
		t.Fatalf("exit status %d after %d frames, remarks %+v", h.code, len(h.frames), h.remarks)
	}
	if last := h.remarks[len(h.remarks)-1]; last.Client != "closed" || last.Code != 1000 {
		t.Errorf("the last word is %+v", last)
	}
}

func TestFollow(t *testing.T) {
	s := newServer(t)
	run := s.start(`echo out; echo err >&2; printf '\377\376'`)
	h := s.client(nil, "--url", s.stream(run.ID), "--header", "X-API-KEY: secret")
	h.whole(t)
	for _, part := range []string{"out\n", "err\n", "\xff\xfe"} {
		if !strings.Contains(h.output(), part) {
			t.Errorf("output %q lacks %q", h.output(), part)
		}
	}
	from := s.client(nil, "--url", s.stream(run.ID), "--header", "X-API-KEY: secret", "--from-seq", fmt.Sprint(len(h.frames)))
	if len(from.frames) != 1 || from.frames[0].Event != belljar.EventEnd {
		t.Errorf("from the last frame on: %+v", from.frames)
	}
}

// A client whose connection breaks repeatedly receives every frame once.
func TestReconnect(t *testing.T) {
	s := newServer(t)
	run := s.start(`i=0; while [ $i -lt 100 ]; do read x; echo "line $i"; i=$((i+1)); done`, interactive)
	in, err := s.runs.Stdin(t.Context(), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	// One line at a time: each makes a frame of its own.
	next := func(f belljar.Frame, _ io.Writer) {
		if f.Type == belljar.FrameStdout || f.Event == belljar.EventStart {
			if _, err := io.WriteString(in, "\n"); err != nil && belljar.CodeOf(err) != belljar.CodeConflict {
				t.Error(err)
			}
		}
	}
	h := s.client(next, "--url", s.stream(run.ID), "--header", "X-API-KEY: secret", "--drop-after", "9", "--retries", "50")
	h.whole(t)
	want := ""
	for i := range 100 {
		want += fmt.Sprintf("line %d\n", i)
	}
	if h.output() != want {
		t.Errorf("output %q", h.output())
	}
	if len(h.remarks) < 10 {
		t.Errorf("it connected %d times only", len(h.remarks))
	}
}

// The client exchanges messages with the program. A character whose bytes arrive one by one is text.
func TestInteractive(t *testing.T) {
	s := newServer(t)
	run := s.start(`printf 'a\303'; read x; printf '\251b\n'; while read x; do echo "got $x"; done; echo bye`, interactive)
	sent := false
	h := s.client(func(f belljar.Frame, stdin io.Writer) {
		if f.Type == belljar.FrameStdout && !sent {
			sent = true
			fmt.Fprint(stdin, "go\nörtlich\n2\n")
			stdin.(io.Closer).Close()
		}
	}, "--url", s.stream(run.ID), "--header", "X-API-KEY: secret", "--stdin")
	h.whole(t)
	if want := "aéb\ngot örtlich\ngot 2\nbye\n"; h.output() != want {
		t.Errorf("output %q, want %q", h.output(), want)
	}
	if len(h.notes) != 1 || h.notes[0].Data["reason"] != "client" {
		t.Errorf("notes %+v", h.notes)
	}
}

func TestCancelled(t *testing.T) {
	s := newServer(t)
	run := s.start("echo ready; exec sleep 1000")
	h := s.client(func(f belljar.Frame, _ io.Writer) {
		if f.Type == belljar.FrameStdout {
			if err := s.runs.Cancel(t.Context(), run.ID); err != nil {
				t.Error(err)
			}
		}
	}, "--url", s.stream(run.ID), "--header", "X-API-KEY: secret")
	h.whole(t)
	if end := h.frames[len(h.frames)-1]; end.Data["phase"] != "killed" {
		t.Errorf("the end is %+v", end)
	}
}

// A signed URL needs no headers; without one, a request without headers is refused.
func TestSignedURL(t *testing.T) {
	s := newServer(t)
	run := s.start("echo hi")
	r, err := http.NewRequestWithContext(api.WithCaller(t.Context(), service.Local()), "GET", strings.Replace(s.url, "ws", "http", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := s.client(nil, "--url", s.door.RunURL(r, run))
	h.whole(t)
	if h.output() != "hi\n" {
		t.Errorf("output %q", h.output())
	}
	for url, status := range map[string]int{s.stream(run.ID): 401, s.stream(run.ID) + "?token=s1.AA.AA": 401} {
		if h := s.client(nil, "--url", url); h.code != 3 || len(h.remarks) != 1 || h.remarks[0].Status != status {
			t.Errorf("%s: exit status %d, %+v", url, h.code, h.remarks)
		}
	}
	if h := s.client(nil, "--url", s.stream("nope"), "--header", "X-API-KEY: secret"); h.code != 3 || h.remarks[0].Status != 404 {
		t.Errorf("an unknown run: %d %+v", h.code, h.remarks)
	}
}

// Input to a run that accepts none violates the protocol.
func TestNotInteractive(t *testing.T) {
	s := newServer(t)
	run := s.start("echo ready; exec sleep 1000")
	sent := false
	h := s.client(func(f belljar.Frame, stdin io.Writer) {
		if f.Type == belljar.FrameStdout && !sent {
			sent = true
			fmt.Fprintln(stdin, "hello?")
		}
	}, "--url", s.stream(run.ID), "--header", "X-API-KEY: secret", "--stdin")
	if last := h.remarks[len(h.remarks)-1]; h.code != 4 || last.Code != 1008 || !strings.Contains(last.Reason, "not interactive") {
		t.Errorf("exit status %d, %+v", h.code, h.remarks)
	}
	if now, err := s.runs.Get(t.Context(), run.ID); err != nil || now.Phase.Terminal() {
		t.Errorf("the run is %s, %v", now.Phase, err)
	}
}
