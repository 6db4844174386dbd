package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
)

// ending is everything that is known about how a run ended.
type ending struct {
	build      *wire.Exit    // as exit, of the program's build; nil without one
	exit       *wire.Exit    // what the agent says of the command; nil if it never started or its agent is gone
	err        error         // why there is no exit; nil with one
	started    bool          // the command ran
	building   bool          // the program was not built
	leftBehind bool          // the compiler left more memory in use than the program may have
	sandbox    *runtime.Exit // how the sandbox died under the run; nil if it lived
	stopped    error         // why the run was to be stopped; nil if nobody asked
	overdue    bool          // it did not end when its agent should have ended it
	before     runtime.Usage // of a sandbox in which something ran before, when the command began
	usage      runtime.Usage

	command       string
	cwd           string // that was asked for
	limits        belljar.Limits
	workspaceExec bool
}

// outcome is what a run became.
type outcome struct {
	phase    belljar.Phase
	exitCode *int
	signal   string
	reason   belljar.Reason
	message  string
	hint     string
	step     string // of making the sandbox or starting the command that failed
	shell    *belljar.ShellState
	warnings []string
}

// judge says what an ending means. It is the one place where that is decided.
func judge(e ending) outcome {
	var o outcome
	switch {
	case e.building && (e.build != nil || e.overdue || e.sandbox != nil):
		o = e.byBuild()
	case e.exit != nil:
		o = e.byExit()
		o.shell = shellState(e.exit)
	case e.started:
		o = e.byLoss()
	default:
		o = e.byStart()
	}
	return o
}

// byExit judges a command whose end the agent has told.
func (e ending) byExit() outcome {
	var o outcome
	if e.exit.Cause != wire.CauseLost {
		o.exitCode, o.signal = status(e.exit)
	}
	ooms, refused := value(e.usage.OOMKills), value(e.usage.PidsRefused)
	failed := o.exitCode == nil || *o.exitCode != 0
	switch {
	case e.exit.Cause == wire.CauseKillFailed:
		o.set(belljar.PhaseFailed, belljar.ReasonKillFailed, "processes outlived every kill; the sandbox was destroyed")
	case e.exit.Cause == wire.CauseEnded:
		o.stopped(e.stopped)
	case e.exit.Cause == wire.CauseTimeout:
		o.timedOut(e.limits)
	case e.exit.Cause == wire.CauseCPUTime:
		o.usedUp(e.limits)
	case failed && ooms > 0:
		e.memory(&o)
		ooms = 0
	case failed && refused > 0:
		o.set(belljar.PhaseFailed, belljar.ReasonPidsLimit,
			fmt.Sprintf("reached the limit of %d processes and threads", box.MaxProcesses(e.limits)))
		o.hint = "allow more with " + box.ProcessLimit(e.limits)
		refused = 0
	case e.exit.Cause == wire.CauseLost:
		o.set(belljar.PhaseFailed, belljar.ReasonSandboxDied, "the command's supervisor died; its exit status is lost")
	case o.signal != "":
		o.set(belljar.PhaseFailed, belljar.ReasonSignaled, "command was killed by "+o.signal)
	case failed:
		o.set(belljar.PhaseFailed, belljar.ReasonNonZeroExit, fmt.Sprintf("command exited with status %d", *o.exitCode))
		if *o.exitCode == 126 && !e.workspaceExec {
			o.hint = noexecHint
		}
	default:
		o.phase = belljar.PhaseCompleted
	}
	switch {
	case ooms > 0 && e.byNode():
		o.warn("%d processes were killed because the node had no memory left (their own limit, %d MiB, was not reached)", ooms, e.limits.MemoryMB)
	case ooms > 0:
		o.warn("%d processes were killed for want of memory (%s)", ooms, e.memoryLimit())
	}
	if refused > 0 {
		o.warn("%d new processes were refused (limit %d)", refused, box.MaxProcesses(e.limits))
	}
	if e.exit.Dropped > 0 {
		o.warn("output beyond %d bytes was dropped (%d bytes)", e.limits.LogBytes, e.exit.Position+e.exit.Dropped-e.limits.LogBytes)
	}
	return o
}

// byLoss judges a command that ran and was lost with its sandbox: whatever was left of it died by KILL.
func (e ending) byLoss() outcome {
	o := outcome{exitCode: number(128 + 9), signal: "SIGKILL"}
	switch {
	case e.stopped != nil:
		o.stopped(e.stopped)
	case e.overdue:
		o.timedOut(e.limits)
	default:
		e.died(&o)
	}
	return o
}

// died says how the sandbox went away.
func (e ending) died(o *outcome) {
	if e.sandbox != nil && e.sandbox.Reason == runtime.ExitOOM {
		e.memory(o)
		return
	}
	o.set(belljar.PhaseFailed, belljar.ReasonSandboxDied, "the sandbox died under the run")
	if e.sandbox != nil {
		o.message += ": " + e.sandbox.String()
	} else if e.err != nil {
		o.message += ": " + e.err.Error()
	}
}

// byStart judges a command that never ran.
func (e ending) byStart() outcome {
	var o outcome
	var refused *wire.Error
	var step *runtime.StepError
	var fetching *box.FetchError
	switch {
	case e.stopped != nil:
		o.stopped(e.stopped)
	case errors.Is(e.err, fault.ErrStartupTimeout):
		message, hint := notReady(e.limits, e.err)
		o.set(belljar.PhaseTimedOut, belljar.ReasonStartupTimeout, message)
		o.hint = cmp.Or(hint, "allow more with startup_timeout_sec (--startup-timeout)")
	case errors.As(e.err, &fetching):
		o.set(belljar.PhaseFailed, belljar.ReasonImagePullFailed, fetching.Reason().Message)
		o.hint = fetching.Reason().Hint
	case errors.As(e.err, &refused) && refused.Code == wire.CodeExecFailed:
		e.execFailed(&o, refused)
	case e.sandbox != nil:
		e.died(&o)
	case errors.As(e.err, &step):
		o.set(belljar.PhaseFailed, belljar.ReasonProvisionFailed, "the sandbox could not be made: "+step.Error())
		o.step, o.hint = step.Step, step.Hint
	case errors.As(e.err, &refused) && refused.Code == wire.CodeNoSpace:
		o.set(belljar.PhaseFailed, belljar.ReasonProvisionFailed, e.err.Error())
		o.step, o.hint = "upload", "allow a larger workspace with workspace_mb (--workspace)"
	default:
		o.set(belljar.PhaseFailed, belljar.ReasonProvisionFailed, "the sandbox could not be made")
		if e.err != nil {
			o.message = e.err.Error()
			o.hint = belljar.HintOf(e.err)
		}
	}
	return o
}

// notReady says that a sandbox took too long to be there, and for what it was waited, with what to do about that, if the
// runtime tells.
func notReady(l belljar.Limits, err error) (message, hint string) {
	message = fmt.Sprintf("the sandbox was not ready after %v seconds", l.StartupTimeoutSec)
	var step *runtime.StepError
	if errors.As(err, &step) && !errors.Is(step, fault.ErrStartupTimeout) && !errors.Is(step, context.DeadlineExceeded) && !errors.Is(step, context.Canceled) {
		return message + ": " + step.Err.Error(), step.Hint
	}
	return message, ""
}

const noexecHint = "files in /workspace cannot be executed unless the run allows it: workspace_exec (--workspace-exec)"

// execFailed says in a shell's terms why a program did not start: 127 not found, 126 not executable.
func (e ending) execFailed(o *outcome, refused *wire.Error) {
	o.set(belljar.PhaseFailed, belljar.ReasonExecFailed, "")
	o.exitCode, o.step = number(126), refused.Step
	if refused.Step == wire.StepChdir {
		e.noFolder(o, refused)
		return
	}
	if refused.Step == wire.StepPTY && refused.Errno != wire.EAGAIN { // not a word about the program
		o.message = refused.Message
		o.hint = "it needs a terminal and, with its streams apart, room for named pipes in /tmp, /dev/shm or /run"
		return
	}
	switch refused.Errno {
	case wire.ENOENT, wire.ENOTDIR:
		o.exitCode = number(127)
		o.message = fmt.Sprintf("%s: not found in the sandbox", e.command)
		o.hint = "the image has no such program, or not the interpreter that its first line names"
		switch {
		case e.building:
			o.hint = "the image has no such compiler; take one that has"
		case strings.ContainsAny(e.command, " \t"):
			o.hint = "the command and its arguments are separate words; sh -c takes a line as one"
		}
	case wire.EACCES:
		o.message = fmt.Sprintf("%s: permission denied", e.command)
		o.hint = "the file is not executable"
		if !e.workspaceExec && inWorkspace(e.command) {
			o.hint = noexecHint
		}
	case wire.ENOEXEC:
		o.message = fmt.Sprintf("%s: not a program that this machine can run", e.command)
		o.hint = "a script needs a first line such as #!/bin/sh; a binary must be built for this machine"
	case wire.EAGAIN:
		o.message, o.hint = box.NoProcess(e.limits)
		o.message = fmt.Sprintf("%s: %s", e.command, o.message)
	default:
		o.message = fmt.Sprintf("%s: %s", e.command, refused.Message)
	}
}

// noFolder says why a program did not start where it was to.
func (e ending) noFolder(o *outcome, refused *wire.Error) {
	switch refused.Errno {
	case wire.ENOENT:
		o.message, o.hint = "the working directory does not exist", "make it first, or leave cwd out"
	case wire.ENOTDIR:
		o.message, o.hint = "the working directory is a file", "name a directory in cwd"
	case wire.EACCES:
		o.message, o.hint = "the working directory may not be entered", "give it permission to be searched"
	default:
		o.message = "the working directory cannot be entered: " + refused.Message
	}
	if e.cwd != "" {
		o.message = e.cwd + ": " + o.message
	}
}

// inWorkspace tells whether a command names a file in the workspace, where commands start.
func inWorkspace(command string) bool {
	if !strings.Contains(command, "/") {
		return false
	}
	return !strings.HasPrefix(command, "/") || strings.HasPrefix(command, belljar.WorkspaceDir+"/")
}

func (o *outcome) set(p belljar.Phase, r belljar.Reason, message string) {
	o.phase, o.reason, o.message = p, r, message
}

func (o *outcome) warn(format string, args ...any) {
	o.warnings = append(o.warnings, fmt.Sprintf(format, args...))
}

func (o *outcome) stopped(why error) {
	o.set(belljar.PhaseKilled, belljar.ReasonCanceledByUser, string(belljar.ReasonCanceledByUser))
	var expired *expiredError
	var node *admission.MemoryError
	switch {
	case errors.As(why, &node):
		o.nodeOutOfMemory(node.Error())
	case errors.As(why, &expired):
		o.set(belljar.PhaseKilled, belljar.ReasonSessionExpired, expired.Error())
	case errors.Is(why, fault.ErrShutdown):
		o.message = fault.ErrShutdown.Error()
	case errors.Is(why, fault.ErrQueueTTL):
		o.set(belljar.PhaseFailed, belljar.ReasonQueueTTLExpired, fault.ErrQueueTTL.Error())
		o.hint = "send it again when less is going on"
	}
}

func (o *outcome) timedOut(l belljar.Limits) {
	o.set(belljar.PhaseTimedOut, belljar.ReasonExecutionTimeout, fmt.Sprintf("command ran longer than %v seconds", l.TimeoutSec))
	o.hint = "allow it more time in the request (--timeout)"
}

func (o *outcome) usedUp(l belljar.Limits) {
	o.set(belljar.PhaseTimedOut, belljar.ReasonCPUTimeExceeded, fmt.Sprintf("command used more than %v seconds of CPU time", l.CPUTimeSec))
	o.hint = "allow it more in the request: cpu_time_sec (--cpu-time)"
}

// memoryLimit is the limit that was met, by its real value.
func (e ending) memoryLimit() string {
	limit := fmt.Sprintf("limit %d MiB", e.limits.MemoryMB)
	if total := e.usage.MemoryTotal; total != nil {
		limit += fmt.Sprintf(", %d MiB with files in memory", *total>>20)
	}
	return limit
}

// byNode reports whether what the kernel killed was killed for want of the node's memory: no limit of the sandbox's own was in
// the way.
func (e ending) byNode() bool {
	return e.usage.LimitHits != nil && *e.usage.LimitHits == 0 && value(e.usage.OOMKills) > 0
}

// memory says by whose limit a command ran out of memory.
func (e ending) memory(o *outcome) {
	if e.byNode() {
		o.nodeOutOfMemory(fmt.Sprintf("the node had no memory left, and a process was killed; its own limit, %d MiB, was not reached", e.limits.MemoryMB))
		return
	}
	o.outOfMemory(e)
}

func (o *outcome) nodeOutOfMemory(message string) {
	o.set(belljar.PhaseFailed, belljar.ReasonNodeOutOfMemory, message)
	o.hint = "send it again when less is going on; an operator can allow all sandboxes more with SANDBOX_NODE_MEMORY_MB"
}

func (o *outcome) outOfMemory(e ending) {
	o.set(belljar.PhaseFailed, belljar.ReasonOOMKilled, "ran out of memory ("+e.memoryLimit()+")")
	o.hint = "allow more with memory_mb (--memory)"
}

// frames are the last of a run's log: what went wrong on our side, if anything, and the end.
func (o outcome) frames() []belljar.Frame {
	var list []belljar.Frame
	if o.step != "" || o.reason == belljar.ReasonProvisionFailed || o.reason == belljar.ReasonImagePullFailed || o.reason == belljar.ReasonSandboxDied {
		data := map[string]any{"reason_code": string(o.reason), "message": o.message}
		if o.step != "" {
			data["step"] = o.step
		}
		if o.hint != "" {
			data["hint"] = o.hint
		}
		list = append(list, belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventError, Data: data})
	}
	return append(list, endFrame(belljar.Run{Phase: o.phase, ExitCode: o.exitCode, ReasonCode: o.reason}, 0))
}

// status is a command's exit code, 128+n when signal n ended it, and that signal's name.
func status(exit *wire.Exit) (*int, string) {
	if exit.Signal != 0 {
		return number(128 + exit.Signal), signalName(exit.Signal)
	}
	return number(exit.Code), ""
}

func number(n int) *int { return &n }

func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
