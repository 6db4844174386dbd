package outcome

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

// exited, signalled and caused return an agent's reports about a command.
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
	counted := runtime.Usage{PidsRefused: &one, Sources: map[string]string{"peak_pids": "cgroup2 pids.peak"}}
	crowded := runtime.Usage{PidsRefused: &one, PidsBelow: true}
	both := runtime.Usage{OOMKills: &one, PidsRefused: &one}
	zero := int64(0)
	starved, own := runtime.Usage{OOMKills: &one, LimitHits: &zero}, runtime.Usage{OOMKills: &one, LimitHits: &one}
	lost := &runtime.Exit{Reason: runtime.ExitKilled, Detail: "signal 9"}
	const none = -1
	for _, test := range []struct {
		name     string
		ending   Ending
		phase    belljar.Phase
		code     int
		signal   string
		reason   belljar.Reason
		message  string // part of the message
		hint     string // part of the hint
		warnings int
	}{
		{"exit 0", Ending{Exit: exited(0)}, "completed", 0, "", "", "", "", 0},
		{"exit 1", Ending{Exit: exited(1)}, "failed", 1, "", "nonzero_exit", "status 1", "", 0},
		{"exit 137 of a shell", Ending{Exit: exited(137)}, "failed", 137, "", "nonzero_exit", "status 137", "", 0},
		{"exit 126 where nothing may be executed", Ending{Exit: exited(126)}, "failed", 126, "", "nonzero_exit", "126", "--workspace-exec", 0},
		{"exit 126 otherwise", Ending{Exit: exited(126), WorkspaceExec: true}, "failed", 126, "", "nonzero_exit", "126", "", 0},
		{"signal", Ending{Exit: signalled(11)}, "failed", 139, "SIGSEGV", "signaled", "SIGSEGV", "", 0},
		{"real-time signal", Ending{Exit: signalled(40)}, "failed", 168, "SIGRTMIN+6", "signaled", "SIGRTMIN+6", "", 0},

		{"timeout by TERM", Ending{Exit: caused(wire.CauseTimeout, signalled(15))}, "timed_out", 143, "SIGTERM", "execution_timeout", "2 seconds", "--timeout", 0},
		{"timeout by KILL", Ending{Exit: caused(wire.CauseTimeout, signalled(9))}, "timed_out", 137, "SIGKILL", "execution_timeout", "", "", 0},
		{"timeout, exit 0 in the grace", Ending{Exit: caused(wire.CauseTimeout, exited(0))}, "timed_out", 0, "", "execution_timeout", "", "", 0},
		{"timeout after a kill for memory", Ending{Exit: caused(wire.CauseTimeout, signalled(9)), Usage: oom}, "timed_out", 137, "SIGKILL", "execution_timeout", "", "", 1},
		{"CPU time", Ending{Exit: caused(wire.CauseCPUTime, signalled(15))}, "timed_out", 143, "SIGTERM", "cpu_time_exceeded", "4 seconds of CPU time", "--cpu-time", 0},
		{"CPU time, and it ended by itself", Ending{Exit: caused(wire.CauseCPUTime, exited(0))}, "timed_out", 0, "", "cpu_time_exceeded", "", "", 0},
		{"overdue", Ending{Started: true, Overdue: true, Err: errors.New("overdue")}, "timed_out", 137, "SIGKILL", "execution_timeout", "", "", 0},

		{"cancelled", Ending{Exit: caused(wire.CauseEnded, signalled(15)), Stopped: fault.ErrCanceled}, "killed", 143, "SIGTERM", "canceled_by_user", "canceled_by_user", "", 0},
		{"cancelled, exit 0 in the grace", Ending{Exit: caused(wire.CauseEnded, exited(0)), Stopped: fault.ErrCanceled}, "killed", 0, "", "canceled_by_user", "canceled_by_user", "", 0},
		{"cancelled, its interpreter first", Ending{Exit: signalled(9), Stopped: fault.ErrCanceled}, "killed", 137, "SIGKILL", "canceled_by_user", "canceled_by_user", "", 0},
		{"cancelled too late", Ending{Exit: exited(0), Stopped: fault.ErrCanceled}, "completed", 0, "", "", "", "", 0},
		{"cancelled before the command", Ending{Err: fault.ErrCanceled, Stopped: fault.ErrCanceled}, "killed", none, "", "canceled_by_user", "canceled_by_user", "", 0},
		{"cancelled and overdue", Ending{Started: true, Overdue: true, Stopped: fault.ErrCanceled}, "killed", 137, "SIGKILL", "canceled_by_user", "", "", 0},
		{"cancelled and the sandbox died", Ending{Started: true, Sandbox: lost, Stopped: fault.ErrCanceled}, "killed", 137, "SIGKILL", "canceled_by_user", "", "", 0},
		{"shut down", Ending{Exit: caused(wire.CauseEnded, signalled(15)), Stopped: fault.ErrShutdown}, "killed", 143, "SIGTERM", "canceled_by_user", "shutting down", "", 0},

		{"out of memory", Ending{Exit: signalled(9), Usage: oom}, "failed", 137, "SIGKILL", "oom_killed", "limit 64 MiB", "--memory", 0},
		{"out of memory, with files", Ending{Exit: signalled(9), Usage: total}, "failed", 137, "SIGKILL", "oom_killed", "limit 64 MiB, 400 MiB with files in memory", "--memory", 0},
		{"out of memory below a shell", Ending{Exit: exited(1), Usage: oom}, "failed", 1, "", "oom_killed", "", "", 0},
		{"a child out of memory, all well", Ending{Exit: exited(0), Usage: oom}, "completed", 0, "", "", "", "", 1},
		{"out of the node's memory", Ending{Exit: signalled(9), Usage: starved}, "failed", 137, "SIGKILL", "node_out_of_memory", "its own limit, 64 MiB, was not reached", "with a new Idempotency-Key if it had one; an operator can allow all sandboxes more with SANDBOX_NODE_MEMORY_MB", 0},
		{"a child out of the node's memory, all well", Ending{Exit: exited(0), Usage: starved}, "completed", 0, "", "", "", "", 1},
		{"by its own limit and not the node's", Ending{Exit: signalled(9), Usage: own}, "failed", 137, "SIGKILL", "oom_killed", "limit 64 MiB", "", 0},
		{"agent out of the node's memory", Ending{Started: true, Sandbox: &runtime.Exit{Reason: runtime.ExitOOM}, Usage: starved}, "failed", 137, "SIGKILL", "node_out_of_memory", "", "", 0},
		{"waited too long", Ending{Stopped: fault.ErrQueueTTL}, "failed", none, "", "queue_ttl_expired", "", "less busy, with a new Idempotency-Key if it had one", 0},
		{"not approved in time", Ending{Stopped: &fault.ApprovalError{Approval: belljar.Approval{State: belljar.ApprovalExpired}}}, "failed", none, "", "approval_expired", "no operator", "is there, with a new Idempotency-Key if it had one", 0},
		{"ended for the others' memory", Ending{Started: true, Sandbox: lost, Stopped: &admission.MemoryError{Used: 90 << 20, Share: 30 << 20}}, "failed", 137, "SIGKILL", "node_out_of_memory", "it used 90 MiB, files in memory included, and its share was 30 MiB", "", 0},
		{"agent out of memory", Ending{Started: true, Sandbox: &runtime.Exit{Reason: runtime.ExitOOM}}, "failed", 137, "SIGKILL", "oom_killed", "", "", 0},
		{"too many processes", Ending{Exit: exited(2), Usage: pids}, "failed", 2, "", "pids_limit_exceeded", "limit of 9 processes and threads, or the host has no more", "--pids", 0},
		{"too many processes, all well", Ending{Exit: exited(0), Usage: pids}, "completed", 0, "", "", "", "", 1},
		{"the host out of processes", Ending{Exit: exited(2), Usage: crowded}, "failed", 2, "", "nonzero_exit", "status 2", "", 1},
		{"the host out of processes for a program", Ending{Err: refused(11), Command: "x", Usage: crowded}, "failed", 126, "", "exec_failed", "x: the host has no more processes", "try again later", 0},
		{"the host out of processes for a compiler", Ending{Building: true, Build: exited(2), Usage: crowded}, "failed", none, "", "compile_failed", "exited with status 2", "", 0},
		{"out of memory in a session", Ending{Exit: signalled(9), Usage: oom, InSession: true}, "failed", 137, "SIGKILL", "oom_killed", "limit 64 MiB", "make the session with more memory_mb (--memory)", 0},
		{"too many processes in a session", Ending{Exit: exited(2), Usage: counted, InSession: true}, "failed", 2, "", "pids_limit_exceeded", "limit of 9", "make the session with more pids (--pids)", 0},
		{"exit 126 in a session", Ending{Exit: exited(126), InSession: true}, "failed", 126, "", "nonzero_exit", "126", "unless the session allows it", 0},
		{"memory and processes", Ending{Exit: exited(2), Usage: both}, "failed", 2, "", "oom_killed", "", "", 1},

		{"not found", Ending{Err: refused(2), Command: "nope"}, "failed", 127, "", "exec_failed", "nope: not found", "interpreter", 0},
		{"below a file", Ending{Err: refused(20), Command: "/bin/sh/x"}, "failed", 127, "", "exec_failed", "", "", 0},
		{"no such directory", Ending{Err: refusedAt("chdir", 2), Cwd: "src"}, "failed", 126, "", "exec_failed", "src: the working directory does not exist", "cwd", 0},
		{"a file for a directory", Ending{Err: refusedAt("chdir", 20), Cwd: "f"}, "failed", 126, "", "exec_failed", "is a file", "", 0},
		{"a closed directory", Ending{Err: refusedAt("chdir", 13), Cwd: "f"}, "failed", 126, "", "exec_failed", "may not be entered", "", 0},
		{"a strange directory", Ending{Err: refusedAt("chdir", 40)}, "failed", 126, "", "exec_failed", "cannot be entered: no", "", 0},
		{"limits below the program's", Ending{Err: refusedAt("rlimits", 1), Command: "sh"}, "failed", 126, "", "exec_failed", "9 processes", "ulimit -Hn", 0},
		{"time or file size below the program's", Ending{Err: refusedAt("rlimits", 1), Command: "sh"}, "failed", 126, "", "exec_failed", "CPU time for 6 seconds", "-Hf or -Ht", 0},
		{"not executable", Ending{Err: refused(13), Command: "/usr/x"}, "failed", 126, "", "exec_failed", "permission denied", "not executable", 0},
		{"noexec", Ending{Err: refused(13), Command: "./a.out"}, "failed", 126, "", "exec_failed", "permission denied", "--workspace-exec", 0},
		{"noexec, absolute", Ending{Err: refused(13), Command: "/workspace/a.out"}, "failed", 126, "", "exec_failed", "", "workspace_exec", 0},
		{"not executable where it could be", Ending{Err: refused(13), Command: "./a.out", WorkspaceExec: true}, "failed", 126, "", "exec_failed", "", "not executable", 0},
		{"too long", Ending{Err: refused(7), Command: "x"}, "failed", 126, "", "exec_failed", "x: its arguments and environment are too long", "128 KiB", 0},
		{"no program", Ending{Err: refused(8), Command: "x"}, "failed", 126, "", "exec_failed", "not a program", "#!", 0},
		{"no streams", Ending{Err: refusedAt("pty", 13), Command: "shell"}, "failed", 126, "", "exec_failed", "no", "named pipes", 0},
		{"no room for a process", Ending{Err: refused(11), Command: "x"}, "failed", 126, "", "exec_failed", "as many processes as it may have", "allow more with pids (--pids)", 0},
		{"no room for a process in a session", Ending{Err: refused(11), Command: "x", InSession: true}, "failed", 126, "", "exec_failed", "as many processes as it may have", "end what runs in it, or make the session with more pids (--pids)", 0},

		{"startup timeout", Ending{Err: fault.ErrStartupTimeout}, "timed_out", none, "", "startup_timeout", "3 seconds", "--startup-timeout", 0},
		{"startup timeout with a reason", Ending{Err: fmt.Errorf("dial: %w: %w", &runtime.StepError{Step: "engine", Err: errors.New("it is away"), Hint: "start it"}, fault.ErrStartupTimeout)}, "timed_out", none, "", "startup_timeout", "3 seconds: it is away", "start it", 0},
		{"startup timeout in a step", Ending{Err: &runtime.StepError{Step: "create", Err: fault.ErrStartupTimeout}}, "timed_out", none, "", "startup_timeout", "3 seconds", "--startup-timeout", 0},
		{"step failed", Ending{Err: &runtime.StepError{Step: "cgroup", Err: errors.New("read-only"), Hint: "mount it"}}, "failed", none, "", "provision_failed", "cgroup: read-only", "mount it", 0},
		{"workspace full", Ending{Err: fmt.Errorf("upload: %w", &wire.Error{Code: wire.CodeNoSpace, Message: "no space"})}, "failed", none, "", "provision_failed", "upload: no space", "--workspace", 0},
		{"volume full", Ending{Err: &wire.Error{Code: wire.CodeNoSpace, Message: "no space"}, Workspace: belljar.Workspace{Volume: "v"}}, "failed", none, "", "provision_failed", "no space", "delete something in the volume, or use another", 0},
		{"anything else", Ending{Err: errors.New("odd")}, "failed", none, "", "provision_failed", "odd", "", 0},

		{"sandbox died", Ending{Started: true, Sandbox: lost}, "failed", 137, "SIGKILL", "sandbox_died", "killed: signal 9", "", 0},
		{"sandbox died before the command", Ending{Sandbox: lost, Err: errors.New("disconnected")}, "failed", none, "", "sandbox_died", "killed: signal 9", "", 0},
		{"agent lost", Ending{Started: true, Err: errors.New("disconnected")}, "failed", 137, "SIGKILL", "sandbox_died", "disconnected", "", 0},
		{"status lost", Ending{Exit: caused(wire.CauseLost, exited(0))}, "failed", none, "", "sandbox_died", "lost", "", 0},
		{"status lost for memory", Ending{Exit: caused(wire.CauseLost, exited(0)), Usage: oom}, "failed", none, "", "oom_killed", "", "", 0},
		{"survivors", Ending{Exit: caused(wire.CauseKillFailed, signalled(9))}, "failed", 137, "SIGKILL", "kill_failed", "outlived", "", 0},
		{"compiler out of memory", Ending{Building: true, Build: signalled(9), Usage: oom}, "failed", none, "", "compile_failed", "64 MiB", "--build-memory", 0},
		{"compiler out of memory in a session", Ending{Building: true, Build: signalled(9), Usage: oom, InSession: true}, "failed", none, "", "compile_failed", "64 MiB", "make the session with more memory_mb", 0},
		{"compiler killed by the node", Ending{Building: true, Build: signalled(9), Usage: starved}, "failed", none, "", "node_out_of_memory", "64 MiB, was not reached", "SANDBOX_NODE_MEMORY_MB", 0},
		{"compiler that exits after the node killed its child", Ending{Building: true, Build: exited(1), Usage: starved}, "failed", none, "", "node_out_of_memory", "", "", 0},
		{"compiler lost with its sandbox by the node", Ending{Building: true, Sandbox: &runtime.Exit{Reason: runtime.ExitOOM}, Usage: starved}, "failed", none, "", "node_out_of_memory", "", "", 0},
		{"compiler over its own limit", Ending{Building: true, Build: signalled(9), Usage: own}, "failed", none, "", "compile_failed", "64 MiB", "--build-memory", 0},
		{"compiler that leaves more than the program may have", Ending{Building: true, Build: exited(0), Err: runtime.ErrMemoryHeld, LeftBehind: true}, "failed", none, "", "compile_failed", "left more memory", "--memory", 0},
		{"limit of the program that cannot be set", Ending{Building: true, Build: exited(0), Err: &runtime.StepError{Step: "cgroup", Err: errors.New("gone")}}, "failed", none, "", "provision_failed", "cgroup: gone", "", 0},
		{"output dropped", Ending{Exit: &wire.Exit{Cause: wire.CauseExited, Position: 101, Dropped: 50}}, "completed", 0, "", "", "", "", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.ending.Limits = belljar.Limits{MemoryMB: 64, CPU: 2, Pids: 9, NProc: 9, TimeoutSec: 2, CPUTimeSec: 4, StartupTimeoutSec: 3, LogBytes: 100}
			got := Decide(test.ending)
			code := none
			if got.ExitCode != nil {
				code = *got.ExitCode
			}
			if got.Phase != test.phase || code != test.code || got.Signal != test.signal || got.Reason != test.reason {
				t.Errorf("%s, %d, %q, %q\nwant %s, %d, %q, %q",
					got.Phase, code, got.Signal, got.Reason, test.phase, test.code, test.signal, test.reason)
			}
			if !strings.Contains(got.Message, test.message) || (got.Phase != "completed") != (got.Message != "") {
				t.Errorf("message %q, want %q in it", got.Message, test.message)
			}
			if !strings.Contains(got.Hint, test.hint) {
				t.Errorf("hint %q, want %q in it", got.Hint, test.hint)
			}
			if len(got.Warnings) != test.warnings {
				t.Errorf("warnings %q, want %d", got.Warnings, test.warnings)
			}
			if !got.Phase.Terminal() || (got.Reason == "") != (got.Phase == belljar.PhaseCompleted) {
				t.Errorf("%s with reason %q", got.Phase, got.Reason)
			}
			frames := got.Frames()
			if last := frames[len(frames)-1]; last.Event != belljar.EventEnd || len(last.Data) != 3 {
				t.Errorf("last frame %+v", last)
			}
		})
	}
}

func TestDroppedBytesAreCounted(t *testing.T) {
	// The service received 101 of 151 bytes, one more than the log's 100.
	o := Decide(Ending{Exit: &wire.Exit{Cause: wire.CauseExited, Position: 101, Dropped: 50}, Limits: belljar.Limits{LogBytes: 100}})
	if want := []string{"output beyond 100 bytes was dropped (51 bytes)"}; !cmp.Equal(o.Warnings, want) {
		t.Errorf("%q, want %q", o.Warnings, want)
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

// TestWords: messages name a program once, and use the singular for one process.
func TestWords(t *testing.T) {
	odd := &wire.Error{Code: wire.CodeExecFailed, Errno: 40, Message: "x: exec: too many levels of symbolic links"}
	if got := Decide(Ending{Err: odd, Command: "x"}).Message; got != odd.Message {
		t.Errorf("message %q, want %q", got, odd.Message)
	}
	for n, want := range map[int64]string{
		1: "1 process was killed for lack of memory (limit 64 MiB)",
		2: "2 processes were killed for lack of memory (limit 64 MiB)",
	} {
		got := Decide(Ending{Exit: exited(0), Usage: runtime.Usage{OOMKills: &n}, Limits: belljar.Limits{MemoryMB: 64}}).Warnings
		if len(got) != 1 || got[0] != want {
			t.Errorf("warnings %q, want %q", got, want)
		}
	}
}
