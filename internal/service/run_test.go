//go:build linux

package service_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar"
)

func TestRunCompletes(t *testing.T) {
	b := newBench(t)
	first := b.start(shell("echo out; echo err >&2"))
	if first.Phase != belljar.PhaseStarting || first.ID == "" || first.ExitCode != nil {
		t.Errorf("accepted as %+v", first)
	}
	r := b.follow(first.ID)
	r.want(t, belljar.PhaseCompleted, 0, "")
	if r.stdout != "out\n" || r.stderr != "err\n" {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
	}
	if r.Runtime != "fake" || r.BaseImage != "host" || r.SpecVersion != "1.1" || len(r.PolicyHash) != 64 || r.StartedAt == nil {
		t.Errorf("run %+v", r.Run)
	}
	if by := r.LimitsEnforced; len(by) != 2 || by["wall_time"] != "agent" || by["cpu_time"] != "agent" {
		t.Errorf("limits enforced: %v", by)
	}
	u := r.ResourceUsage
	if u.WallTimeSec <= 0 || u.CPUTimeSec == nil || u.Sources["cpu_time_sec"] == "" || u.LogBytes != 8 || u.Limits == nil {
		t.Errorf("usage %+v", u)
	}
	var order []string
	for _, f := range r.frames {
		if f.Type == belljar.FrameEvent {
			order = append(order, strings.TrimSpace(fmt.Sprint(f.Event, " ", f.Data["phase"])))
		}
	}
	if got, want := strings.Join(order, ", "), "phase starting, phase running, start <nil>, end completed"; got != want {
		t.Errorf("events %s\nwant %s", got, want)
	}
}

// A run never looks shorter than its command, however late its agent's response arrives.
func TestStartedBeforeItsCommand(t *testing.T) {
	b := newBench(t)
	for range 10 {
		r := b.run(command("true"))
		if took := r.FinishedAt.Sub(*r.StartedAt).Seconds(); took < r.ResourceUsage.WallTimeSec {
			t.Errorf("from %v to %v are %v s, the command ran for %v s", r.StartedAt, r.FinishedAt, took, r.ResourceUsage.WallTimeSec)
		}
	}
}

func TestFramesFromTheMiddleAndAgain(t *testing.T) {
	b := newBench(t)
	r := b.run(shell("echo a; echo b"))
	for from := uint64(0); from <= uint64(len(r.frames))+1; from++ {
		n := 0
		for _, err := range b.Frames(t.Context(), r.ID, from) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if want := len(r.frames) - int(max(from, 1)) + 1; n != want {
			t.Errorf("from %d: %d frames, want %d", from, n, want)
		}
	}
}

func TestOutcomesOfCommands(t *testing.T) {
	b := newBench(t)
	for _, test := range []struct {
		name    string
		req     belljar.RunRequest
		phase   belljar.Phase
		code    int
		reason  belljar.Reason
		message string
	}{
		{"status", shell("exit 3"), belljar.PhaseFailed, 3, belljar.ReasonNonZeroExit, "status 3"},
		{"signal", shell("kill -SEGV $$"), belljar.PhaseFailed, 139, belljar.ReasonSignaled, "SIGSEGV"},
		{"not found", command("no-such-program"),
			belljar.PhaseFailed, 127, belljar.ReasonExecFailed, "no-such-program: not found"},
		{"not a program", with(command("./x"), func(s *belljar.RunSpec) {
			s.Files = []belljar.InlineFile{{Path: "x", Content: []byte("x")}}
		}), belljar.PhaseFailed, 126, belljar.ReasonExecFailed, "./x: permission denied"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := b.run(test.req)
			r.want(t, test.phase, test.code, test.reason)
			if !strings.Contains(r.Message, test.message) {
				t.Errorf("message %q, want %q in it", r.Message, test.message)
			}
			if test.reason == belljar.ReasonExecFailed && (r.Hint == "" || r.StartedAt != nil) {
				t.Errorf("hint %q, started at %v", r.Hint, r.StartedAt)
			}
		})
	}
}

func TestExecutionTimeout(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	req := shell("echo begun; exec sleep 1000")
	req.TimeoutSec = late
	r := b.run(req)
	r.want(t, belljar.PhaseTimedOut, 143, belljar.ReasonExecutionTimeout)
	if r.stdout != "begun\n" || r.Signal != "SIGTERM" {
		t.Errorf("stdout %q, signal %s", r.stdout, r.Signal)
	}
}

func TestCPUTime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	req := shell("echo begun; while :; do :; done")
	req.CPUTimeSec = 0.2
	r := b.run(req)
	r.want(t, belljar.PhaseTimedOut, 143, belljar.ReasonCPUTimeExceeded)
	u := r.ResourceUsage
	if r.stdout != "begun\n" || u.CPUTimeSec == nil || *u.CPUTimeSec < 0.2 || u.Limits.CPUTimeSec != 0.2 {
		t.Errorf("stdout %q, usage %+v", r.stdout, u)
	}
}

// A session's CPU time limit applies to runs that set none, but to no command of its shell.
func TestCPUTimeInSession(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.open(func(r *belljar.SessionRequest) { r.CPUTimeSec = 0.2 })
	req := shell("while :; do :; done")
	req.SessionID, req.BaseImage = s.ID, ""
	b.run(req).want(t, belljar.PhaseTimedOut, 143, belljar.ReasonCPUTimeExceeded)
	req.Command, req.Shell = nil, &belljar.ShellCommand{Cmd: "true"}
	if r := b.run(req); r.Phase != belljar.PhaseCompleted || r.ResourceUsage.Limits.CPUTimeSec != 0 {
		t.Errorf("shell command: %+v", r.Run)
	}
	req.CPUTimeSec = 1
	if _, err := b.Start(b.context(), req); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Errorf("shell command with a limit of CPU time: %v", err)
	}
}

// Limits of a process belong to the session's shell, whether it has started or not: a command cannot change them.
func TestProcessLimitsOfShell(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.open(func(r *belljar.SessionRequest) { r.Resources.NoFile = 99 })
	req := in(s, "")
	req.Command, req.Shell = nil, &belljar.ShellCommand{Cmd: "ulimit -n"}
	code := inContext(s.ID, "bash", "ulimit -n")
	code.Language = "bash"
	for range 2 {
		for _, limited := range []belljar.RunRequest{req, code} {
			for field, r := range map[string]belljar.Resources{"resources.nofile": {NoFile: 64}, "resources.nproc": {NProc: 64}} {
				limited.Resources = r
				var e *belljar.Error
				if _, err := b.Start(b.context(), limited); !errors.As(err, &e) || e.Code != belljar.CodeInvalidRequest || e.Details["field"] != field || !strings.HasSuffix(e.Hint, "without a shell or context") {
					t.Errorf("%s: %v", field, err)
				}
			}
		}
		if r := b.run(code); r.stdout != "99\n" {
			t.Errorf("%q", r.stdout)
		}
		if r := b.run(req); r.stdout != "99\n" || r.ResourceUsage.Limits.NoFile != 99 {
			t.Errorf("%q, %+v", r.stdout, r.ResourceUsage.Limits)
		}
	}
}

func TestTimeoutOfOneThatIgnoresTERM(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	req := shell("trap '' TERM; while :; do sleep 1000; done")
	req.TimeoutSec = late
	b.run(req).want(t, belljar.PhaseTimedOut, 137, belljar.ReasonExecutionTimeout)
}

func TestEnvironment(t *testing.T) {
	b := newBench(t)
	req := shell(`env | grep -v '^_=' | sort; ulimit -n; ulimit -c`)
	req.Env = map[string]string{"LANG": "de", "MINE": "a=b c"}
	r := b.run(req)
	r.want(t, belljar.PhaseCompleted, 0, "")
	for _, line := range []string{
		"HOME=/workspace", "LANG=de", "LOGNAME=sandbox", "MINE=a=b c", "TERM=dumb", "TMPDIR=/tmp", "USER=sandbox",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin", "1024", "0",
	} {
		if !strings.Contains("\n"+r.stdout, "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, r.stdout)
		}
	}
}

func TestStdin(t *testing.T) {
	b := newBench(t)
	big := strings.Repeat("0123456789abcdef", 64<<10) // larger than all windows and pipes together
	req := shell("cat")
	req.Input = strings.NewReader(big)
	r := b.run(req)
	r.want(t, belljar.PhaseCompleted, 0, "")
	if r.stdout != big {
		t.Errorf("%d bytes came back, want %d", len(r.stdout), len(big))
	}
	if r := b.run(shell("cat; echo end")); r.stdout != "end\n" {
		t.Errorf("without stdin: %q", r.stdout)
	}
}

// An endless stream does not delay the run, whether or not the command reads it.
func TestEndlessStdin(t *testing.T) {
	b := newBench(t)
	silent := newSilence()
	t.Cleanup(silent.Close)
	req := shell("echo done")
	req.Input = silent
	b.run(req).want(t, belljar.PhaseCompleted, 0, "")

	req = shell("head -c 3")
	req.Input = endless{}
	r := b.run(req)
	r.want(t, belljar.PhaseCompleted, 0, "")
	if r.stdout != "yyy" {
		t.Errorf("stdout %q", r.stdout)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'y'
	}
	return len(b), nil
}

func TestConcurrentRuns(t *testing.T) {
	b := newBench(t)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			req := shell(fmt.Sprintf("cat; echo %d > f; exit %d", i, i%3))
			req.Input = strings.NewReader(fmt.Sprint(i))
			req.CapturePatterns = []string{"f"}
			run, err := b.Start(t.Context(), req)
			if err != nil {
				t.Errorf("start: %v", err)
				return
			}
			out := ""
			for f, err := range b.Frames(t.Context(), run.ID, 1) {
				if err != nil {
					t.Errorf("frames: %v", err)
				}
				if f.Type == belljar.FrameStdout {
					out += string(f.Output)
				}
			}
			got, err := b.Get(t.Context(), run.ID)
			if err != nil || got.ExitCode == nil || *got.ExitCode != i%3 || out != fmt.Sprint(i) {
				t.Errorf("run %d printed %q: %+v, %v", i, out, got, err)
			}
			if text := read(t, b, run.ID, "f"); text != fmt.Sprintf("%d\n", i) {
				t.Errorf("artifact of run %d is %q", i, text)
			}
		})
	}
	wg.Wait()
}

// If programs in the workspace may be executed, temporary files go there.
func TestWorkspaceExec(t *testing.T) {
	b := newBench(t)
	req := shell("echo $TMPDIR; stat -c %a .tmp")
	req.WorkspaceExec = true
	if r := b.run(req); r.stdout != "/workspace/.tmp\n700\n" {
		t.Errorf("stdout %q, stderr %q, %s", r.stdout, r.stderr, r.Message)
	}
}

// Changes that the caller makes to a request after Start have no effect.
func TestRequestIsCopied(t *testing.T) {
	b := newBench(t)
	req := shell("cat f; echo $A")
	req.Env = map[string]string{"A": "env"}
	req.Files = []belljar.InlineFile{{Path: "f", Content: []byte("file ")}}
	run := b.start(req)
	req.Command[2], req.Env["A"] = "exit 1", "changed"
	copy(req.Files[0].Content, "chang")
	if r := b.follow(run.ID); r.stdout != "file env\n" {
		t.Errorf("stdout %q", r.stdout)
	}
}
