package cli

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/notice"
)

// TestConclude: each outcome of a run has its exit status and message.
func TestConclude(t *testing.T) {
	code := func(n int) *int { return &n }
	limits := belljar.DefaultLimits()
	limits.MemoryMB = 100
	for _, test := range []struct {
		name   string
		run    belljar.Run
		signal syscall.Signal
		status int
		words  string
	}{
		{"success", belljar.Run{Phase: "completed", ExitCode: code(0)}, 0, 0, ""},
		{"its own status", belljar.Run{Phase: "failed", ReasonCode: belljar.ReasonNonZeroExit, ExitCode: code(3)}, 0, 3, ""},
		{"not executable", belljar.Run{Phase: "failed", ReasonCode: belljar.ReasonNonZeroExit, ExitCode: code(126)}, 0, 126, "hint: advice\n"},
		{"long stack", belljar.Run{Phase: "failed", ReasonCode: belljar.ReasonNonZeroExit, ExitCode: code(1), Failure: failureOf(longTrace)}, 0, 1, "hint: it failed at main.py:12 in load\n"},
		{"short stack", belljar.Run{Phase: "failed", ReasonCode: belljar.ReasonNonZeroExit, ExitCode: code(1), Failure: failureOf(longTrace - 1)}, 0, 1, ""},
		{"signal", belljar.Run{Phase: "failed", ReasonCode: belljar.ReasonSignaled, Signal: "SIGSEGV", ExitCode: code(139)}, 0, 139, "belljar: ended by SIGSEGV\n"},
		{"timeout", belljar.Run{Phase: "timed_out", ReasonCode: belljar.ReasonExecutionTimeout, ExitCode: code(143)}, 0, 124, "belljar: timed out after 1m0s\nhint: set a longer --timeout\n"},
		{"CPU time", belljar.Run{Phase: "timed_out", ReasonCode: belljar.ReasonCPUTimeExceeded}, 0, 124, "belljar: used more than 0s of CPU time\nhint: --cpu-time gives it more\n"},
		{"CPU time in a session", belljar.Run{Phase: "timed_out", ReasonCode: belljar.ReasonCPUTimeExceeded, SessionID: "s"}, 0, 124, "belljar: used more than 0s of CPU time\nhint: --cpu-time of the session gives all its runs more\n"},
		{"startup timeout", belljar.Run{Phase: "timed_out", ReasonCode: belljar.ReasonStartupTimeout, Message: "not ready: the engine is away"}, 0, 124, "belljar: not ready: the engine is away\nhint: advice\n"},
		{"memory", belljar.Run{Phase: "failed", ReasonCode: belljar.ReasonOOMKilled, ExitCode: code(1), Message: "ran out of memory (limit 100 MiB)"}, 0, 137, "belljar: ran out of memory (limit 100 MiB)\nhint: --memory 200m gives it more\n"},
		{"pids", belljar.Run{Phase: "failed", ReasonCode: belljar.ReasonPidsLimit, ExitCode: code(2), Message: "reached the limit of 256 processes and threads, or the host has no more"}, 0, 2, "belljar: reached the limit of 256 processes and threads, or the host has no more\nhint: --pids 512 gives it more\n"},
		{"not found", belljar.Run{Phase: "failed", ReasonCode: belljar.ReasonExecFailed, ExitCode: code(127), Message: "x: not found"}, 0, 127, "belljar: x: not found\nhint: advice\n"},
		{"our fault", belljar.Run{Phase: "failed", ReasonCode: belljar.ReasonProvisionFailed, Message: "mount: no\n\x1b[2J"}, 0, 125, "belljar: mount: no ?[2J\nhint: advice\n"},
		{"no message", belljar.Run{Phase: "failed", ReasonCode: belljar.ReasonNodeLost}, 0, 125, "belljar: node lost\nhint: advice\n"},
		{"interrupted", belljar.Run{Phase: "killed", ReasonCode: belljar.ReasonCanceledByUser, ExitCode: code(143)}, syscall.SIGINT, 130, ""},
		{"terminated", belljar.Run{Phase: "killed", ReasonCode: belljar.ReasonCanceledByUser}, syscall.SIGTERM, 143, ""},
		{"ended before the signal", belljar.Run{Phase: "completed", ExitCode: code(0)}, syscall.SIGINT, 0, ""},
		{"warning", belljar.Run{Phase: "completed", ExitCode: code(0), Warnings: []string{"careful"}}, 0, 0, "belljar: careful\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run.Hint = "advice"
			test.run.ResourceUsage = &belljar.ResourceUsage{Limits: &limits}
			var words bytes.Buffer
			c := &console{Writer: notice.Writer{Stderr: &words}}
			if got := conclude(c, test.run, test.signal); got != test.status {
				t.Errorf("status %d, want %d", got, test.status)
			}
			if words.String() != test.words {
				t.Errorf("words %q, want %q", words.String(), test.words)
			}
		})
	}
}

// With --quiet, output that was dropped is still reported.
func TestConcludeQuietly(t *testing.T) {
	var words bytes.Buffer
	c := &console{Writer: notice.Writer{Stderr: &words, Quiet: true}}
	code := 0
	conclude(c, belljar.Run{Phase: "completed", ExitCode: &code, Warnings: []string{"the output was cut"}, Build: &belljar.Build{OutputTruncated: true}}, 0)
	if words.String() != "belljar: the output was cut\nbelljar: what the compiler printed was cut at 64 KiB\n" {
		t.Error(words.String())
	}
}

// An internal error of the server refers to the server's log.
func TestRequestID(t *testing.T) {
	var words bytes.Buffer
	c := &console{Writer: notice.Writer{Stderr: &words}}
	c.fail(&belljar.Error{Code: belljar.CodeInternal, Message: "internal error", Details: map[string]any{"request_id": "r-1"}})
	if !strings.Contains(words.String(), "\nhint: the server's log says why, with request_id r-1\n") {
		t.Error(words.String())
	}
}

// failureOf has the given number of frames, with the failing place in the middle.
func failureOf(frames int) *belljar.RunFailure {
	f := &belljar.RunFailure{Frames: make([]belljar.FailureFrame, frames)}
	for i := range f.Frames {
		f.Frames[i] = belljar.FailureFrame{File: "/usr/lib/x.py", Line: i, Skipped: "runtime"}
	}
	f.Frames[frames/2] = belljar.FailureFrame{File: "main.py", Line: 12, Function: "load"}
	return f
}
