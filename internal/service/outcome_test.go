package service

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/fault"
)

// exited, signalled and caused are what an agent tells of a command.
func exited(code int) *wire.Exit { return &wire.Exit{Code: code, Cause: wire.CauseExited} }
func signalled(n int) *wire.Exit {
	return &wire.Exit{Code: -1, Signal: n, Cause: wire.CauseExited}
}
func caused(c wire.Cause, exit *wire.Exit) *wire.Exit { exit.Cause = c; return exit }

func refused(errno int) error { return refusedAt("execve", errno) }
func refusedAt(step string, errno int) error {
	return fmt.Errorf("exec: %w", &wire.Error{Code: wire.CodeExecFailed, Errno: errno, Step: step, Message: "no"})
}

func TestJudge(t *testing.T) {
	one := int64(1)
	sum := int64(400 << 20)
	total := runtime.Usage{OOMKills: &one, MemoryTotal: &sum}
	oom, pids := runtime.Usage{OOMKills: &one}, runtime.Usage{PidsRefused: &one}
	both := runtime.Usage{OOMKills: &one, PidsRefused: &one}
	zero := int64(0)
	starved, own := runtime.Usage{OOMKills: &one, LimitHits: &zero}, runtime.Usage{OOMKills: &one, LimitHits: &one}
	lost := &runtime.Exit{Reason: runtime.ExitKilled, Detail: "signal 9"}
	const none = -1
	for _, test := range []struct {
		name     string
		ending   ending
		phase    belljar.Phase
		code     int
		signal   string
		reason   belljar.Reason
		message  string // part of it
		hint     string // part of it
		warnings int
	}{
		{"exit 0", ending{exit: exited(0)}, "completed", 0, "", "", "", "", 0},
		{"exit 1", ending{exit: exited(1)}, "failed", 1, "", "nonzero_exit", "status 1", "", 0},
		{"exit 137 of a shell", ending{exit: exited(137)}, "failed", 137, "", "nonzero_exit", "status 137", "", 0},
		{"exit 126 where nothing may be executed", ending{exit: exited(126)}, "failed", 126, "", "nonzero_exit", "126", "--workspace-exec", 0},
		{"exit 126 otherwise", ending{exit: exited(126), workspaceExec: true}, "failed", 126, "", "nonzero_exit", "126", "", 0},
		{"signal", ending{exit: signalled(11)}, "failed", 139, "SIGSEGV", "signaled", "SIGSEGV", "", 0},
		{"real-time signal", ending{exit: signalled(40)}, "failed", 168, "SIGRTMIN+6", "signaled", "SIGRTMIN+6", "", 0},

		{"timeout by TERM", ending{exit: caused(wire.CauseTimeout, signalled(15))}, "timed_out", 143, "SIGTERM", "execution_timeout", "2 seconds", "--timeout", 0},
		{"timeout by KILL", ending{exit: caused(wire.CauseTimeout, signalled(9))}, "timed_out", 137, "SIGKILL", "execution_timeout", "", "", 0},
		{"timeout, exit 0 in the grace", ending{exit: caused(wire.CauseTimeout, exited(0))}, "timed_out", 0, "", "execution_timeout", "", "", 0},
		{"timeout after a kill for memory", ending{exit: caused(wire.CauseTimeout, signalled(9)), usage: oom}, "timed_out", 137, "SIGKILL", "execution_timeout", "", "", 1},
		{"CPU time", ending{exit: caused(wire.CauseCPUTime, signalled(15))}, "timed_out", 143, "SIGTERM", "cpu_time_exceeded", "4 seconds of CPU time", "--cpu-time", 0},
		{"CPU time, and it ended by itself", ending{exit: caused(wire.CauseCPUTime, exited(0))}, "timed_out", 0, "", "cpu_time_exceeded", "", "", 0},
		{"overdue", ending{started: true, overdue: true, err: errOverdue}, "timed_out", 137, "SIGKILL", "execution_timeout", "", "", 0},

		{"cancelled", ending{exit: caused(wire.CauseEnded, signalled(15)), stopped: fault.ErrCanceled}, "killed", 143, "SIGTERM", "canceled_by_user", "canceled_by_user", "", 0},
		{"cancelled, exit 0 in the grace", ending{exit: caused(wire.CauseEnded, exited(0)), stopped: fault.ErrCanceled}, "killed", 0, "", "canceled_by_user", "canceled_by_user", "", 0},
		{"cancelled too late", ending{exit: exited(0), stopped: fault.ErrCanceled}, "completed", 0, "", "", "", "", 0},
		{"cancelled before the command", ending{err: fault.ErrCanceled, stopped: fault.ErrCanceled}, "killed", none, "", "canceled_by_user", "canceled_by_user", "", 0},
		{"cancelled and overdue", ending{started: true, overdue: true, stopped: fault.ErrCanceled}, "killed", 137, "SIGKILL", "canceled_by_user", "", "", 0},
		{"cancelled and the sandbox died", ending{started: true, sandbox: lost, stopped: fault.ErrCanceled}, "killed", 137, "SIGKILL", "canceled_by_user", "", "", 0},
		{"shut down", ending{exit: caused(wire.CauseEnded, signalled(15)), stopped: fault.ErrShutdown}, "killed", 143, "SIGTERM", "canceled_by_user", "shutting down", "", 0},

		{"out of memory", ending{exit: signalled(9), usage: oom}, "failed", 137, "SIGKILL", "oom_killed", "limit 64 MiB", "--memory", 0},
		{"out of memory, with files", ending{exit: signalled(9), usage: total}, "failed", 137, "SIGKILL", "oom_killed", "limit 64 MiB, 400 MiB with files in memory", "--memory", 0},
		{"out of memory below a shell", ending{exit: exited(1), usage: oom}, "failed", 1, "", "oom_killed", "", "", 0},
		{"a child out of memory, all well", ending{exit: exited(0), usage: oom}, "completed", 0, "", "", "", "", 1},
		{"out of the node's memory", ending{exit: signalled(9), usage: starved}, "failed", 137, "SIGKILL", "node_out_of_memory", "its own limit, 64 MiB, was not reached", "SANDBOX_NODE_MEMORY_MB", 0},
		{"a child out of the node's memory, all well", ending{exit: exited(0), usage: starved}, "completed", 0, "", "", "", "", 1},
		{"by its own limit and not the node's", ending{exit: signalled(9), usage: own}, "failed", 137, "SIGKILL", "oom_killed", "limit 64 MiB", "", 0},
		{"agent out of the node's memory", ending{started: true, sandbox: &runtime.Exit{Reason: runtime.ExitOOM}, usage: starved}, "failed", 137, "SIGKILL", "node_out_of_memory", "", "", 0},
		{"ended for the others' memory", ending{started: true, sandbox: lost, stopped: &admission.MemoryError{Used: 90 << 20, Share: 30 << 20}}, "failed", 137, "SIGKILL", "node_out_of_memory", "it used 90 MiB, files in memory included, and its share was 30 MiB", "", 0},
		{"agent out of memory", ending{started: true, sandbox: &runtime.Exit{Reason: runtime.ExitOOM}}, "failed", 137, "SIGKILL", "oom_killed", "", "", 0},
		{"too many processes", ending{exit: exited(2), usage: pids}, "failed", 2, "", "pids_limit_exceeded", "limit of 9", "--pids", 0},
		{"too many processes, all well", ending{exit: exited(0), usage: pids}, "completed", 0, "", "", "", "", 1},
		{"memory and processes", ending{exit: exited(2), usage: both}, "failed", 2, "", "oom_killed", "", "", 1},

		{"not found", ending{err: refused(2), command: "nope"}, "failed", 127, "", "exec_failed", "nope: not found", "interpreter", 0},
		{"below a file", ending{err: refused(20), command: "/bin/sh/x"}, "failed", 127, "", "exec_failed", "", "", 0},
		{"no such directory", ending{err: refusedAt("chdir", 2), cwd: "src"}, "failed", 126, "", "exec_failed", "src: the working directory does not exist", "cwd", 0},
		{"a file for a directory", ending{err: refusedAt("chdir", 20), cwd: "f"}, "failed", 126, "", "exec_failed", "is a file", "", 0},
		{"a closed directory", ending{err: refusedAt("chdir", 13), cwd: "f"}, "failed", 126, "", "exec_failed", "may not be entered", "", 0},
		{"a strange directory", ending{err: refusedAt("chdir", 40)}, "failed", 126, "", "exec_failed", "cannot be entered: no", "", 0},
		{"not executable", ending{err: refused(13), command: "/usr/x"}, "failed", 126, "", "exec_failed", "permission denied", "not executable", 0},
		{"noexec", ending{err: refused(13), command: "./a.out"}, "failed", 126, "", "exec_failed", "permission denied", "--workspace-exec", 0},
		{"noexec, absolute", ending{err: refused(13), command: "/workspace/a.out"}, "failed", 126, "", "exec_failed", "", "workspace_exec", 0},
		{"not executable where it could be", ending{err: refused(13), command: "./a.out", workspaceExec: true}, "failed", 126, "", "exec_failed", "", "not executable", 0},
		{"no program", ending{err: refused(8), command: "x"}, "failed", 126, "", "exec_failed", "not a program", "#!", 0},
		{"no streams", ending{err: refusedAt("pty", 13), command: "shell"}, "failed", 126, "", "exec_failed", "no", "named pipes", 0},
		{"no room for a process", ending{err: refused(11), command: "x"}, "failed", 126, "", "exec_failed", "as many processes as it may have", "--pids", 0},
		{"arguments too long", ending{err: refused(7), command: "x"}, "failed", 126, "", "exec_failed", "x: no", "", 0},

		{"startup timeout", ending{err: fault.ErrStartupTimeout}, "timed_out", none, "", "startup_timeout", "3 seconds", "--startup-timeout", 0},
		{"startup timeout with a reason", ending{err: fmt.Errorf("dial: %w: %w", &runtime.StepError{Step: "engine", Err: errors.New("it is away"), Hint: "start it"}, fault.ErrStartupTimeout)}, "timed_out", none, "", "startup_timeout", "3 seconds: it is away", "start it", 0},
		{"startup timeout in a step", ending{err: &runtime.StepError{Step: "create", Err: fault.ErrStartupTimeout}}, "timed_out", none, "", "startup_timeout", "3 seconds", "--startup-timeout", 0},
		{"step failed", ending{err: &runtime.StepError{Step: "cgroup", Err: errors.New("read-only"), Hint: "mount it"}}, "failed", none, "", "provision_failed", "cgroup: read-only", "mount it", 0},
		{"workspace full", ending{err: fmt.Errorf("upload: %w", &wire.Error{Code: wire.CodeNoSpace, Message: "no space"})}, "failed", none, "", "provision_failed", "upload: no space", "--workspace", 0},
		{"anything else", ending{err: errors.New("odd")}, "failed", none, "", "provision_failed", "odd", "", 0},

		{"sandbox died", ending{started: true, sandbox: lost}, "failed", 137, "SIGKILL", "sandbox_died", "killed: signal 9", "", 0},
		{"sandbox died before the command", ending{sandbox: lost, err: errors.New("disconnected")}, "failed", none, "", "sandbox_died", "killed: signal 9", "", 0},
		{"agent lost", ending{started: true, err: errors.New("disconnected")}, "failed", 137, "SIGKILL", "sandbox_died", "disconnected", "", 0},
		{"status lost", ending{exit: caused(wire.CauseLost, exited(0))}, "failed", none, "", "sandbox_died", "lost", "", 0},
		{"status lost for memory", ending{exit: caused(wire.CauseLost, exited(0)), usage: oom}, "failed", none, "", "oom_killed", "", "", 0},
		{"survivors", ending{exit: caused(wire.CauseKillFailed, signalled(9))}, "failed", 137, "SIGKILL", "kill_failed", "outlived", "", 0},
		{"output dropped", ending{exit: &wire.Exit{Cause: wire.CauseExited, Position: 101, Dropped: 50}}, "completed", 0, "", "", "", "", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.ending.limits = belljar.Limits{MemoryMB: 64, Pids: 9, NProc: 9, TimeoutSec: 2, CPUTimeSec: 4, StartupTimeoutSec: 3, LogBytes: 100}
			got := judge(test.ending)
			code := none
			if got.exitCode != nil {
				code = *got.exitCode
			}
			if got.phase != test.phase || code != test.code || got.signal != test.signal || got.reason != test.reason {
				t.Errorf("%s, %d, %q, %q\nwant %s, %d, %q, %q",
					got.phase, code, got.signal, got.reason, test.phase, test.code, test.signal, test.reason)
			}
			if !strings.Contains(got.message, test.message) || (got.phase != "completed") != (got.message != "") {
				t.Errorf("message %q, want %q in it", got.message, test.message)
			}
			if !strings.Contains(got.hint, test.hint) {
				t.Errorf("hint %q, want %q in it", got.hint, test.hint)
			}
			if len(got.warnings) != test.warnings {
				t.Errorf("warnings %q, want %d", got.warnings, test.warnings)
			}
			if !got.phase.Terminal() || (got.reason == "") != (got.phase == belljar.PhaseCompleted) {
				t.Errorf("%s with reason %q", got.phase, got.reason)
			}
			frames := got.frames()
			if last := frames[len(frames)-1]; last.Event != belljar.EventEnd || len(last.Data) != 3 {
				t.Errorf("last frame %+v", last)
			}
		})
	}
}

func TestDroppedBytesAreCounted(t *testing.T) {
	// 101 of 151 bytes reached us, one more than the log's 100.
	o := judge(ending{exit: &wire.Exit{Cause: wire.CauseExited, Position: 101, Dropped: 50}, limits: belljar.Limits{LogBytes: 100}})
	if want := []string{"output beyond 100 bytes was dropped (51 bytes)"}; !cmp.Equal(o.warnings, want) {
		t.Errorf("%q, want %q", o.warnings, want)
	}
}

func TestSignalName(t *testing.T) {
	for n, want := range map[int]string{
		1: "SIGHUP", 9: "SIGKILL", 15: "SIGTERM", 31: "SIGSYS", 34: "SIGRTMIN+0", 64: "SIGRTMIN+30", 32: "signal 32", 0: "signal 0", 99: "signal 99",
	} {
		if got := signalName(n); got != want {
			t.Errorf("signal %d is %s, want %s", n, got, want)
		}
	}
}
