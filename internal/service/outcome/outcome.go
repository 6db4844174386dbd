// Package outcome derives the outcome of a run: phase, exit code, reason, and the message for its caller. It does no I/O.
package outcome

import (
	"errors"
	"fmt"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
)

// Ending is everything known about the end of a run.
type Ending struct {
	Build      *wire.Exit    // as Exit, of the program's build; nil without one
	Exit       *wire.Exit    // the agent's report about the command; nil if it never started or its agent is gone
	Err        error         // why there is no Exit; nil with one
	Started    bool          // the command ran
	Building   bool          // the run ended before its program was built
	LeftBehind bool          // the compiler left more memory in use than the program may have
	Sandbox    *runtime.Exit // how the sandbox died during the run; nil if it lived
	Stopped    error         // why the run was stopped; nil if it was not
	Overdue    bool          // it did not end at its agent's deadline
	Before     runtime.Usage // of a sandbox in which an earlier command ran, at the start of this command
	Usage      runtime.Usage

	Command       string
	Cwd           string // of the request
	Limits        belljar.Limits
	Workspace     belljar.Workspace
	WorkspaceExec bool
	InSession     bool
}

// Outcome is the outcome of a run.
type Outcome struct {
	Phase    belljar.Phase
	ExitCode *int
	Signal   string
	Reason   belljar.Reason
	Message  string
	Hint     string
	Step     string // failed step of making the sandbox or starting the command
	Shell    *belljar.ShellState
	Failure  *belljar.RunFailure // parsed from the output; [Decide] leaves it nil
	Warnings []string
}

// Decide derives the outcome from an ending.
func Decide(e Ending) Outcome {
	var o Outcome
	switch {
	case errors.Is(e.Err, fault.ErrDefect):
		o.set(belljar.PhaseFailed, belljar.ReasonNodeLost, e.Err.Error())
		o.Hint = "an operator finds the cause in the server's log"
	case e.Building && (e.Build != nil || e.Overdue || e.Sandbox != nil):
		o = e.byBuild()
	case e.Exit != nil:
		o = e.byExit()
		o.Shell = shellState(e.Exit)
	case e.Started:
		o = e.byLoss()
	default:
		o = e.byStart()
	}
	return o
}

// byExit judges a command whose exit the agent has reported.
func (e Ending) byExit() Outcome {
	var o Outcome
	if e.Exit.Cause != wire.CauseLost {
		o.ExitCode, o.Signal = Status(e.Exit)
	}
	ooms, refused := value(e.Usage.OOMKills), value(e.Usage.PidsRefused)
	failed := o.ExitCode == nil || *o.ExitCode != 0
	switch {
	case e.Exit.Cause == wire.CauseKillFailed:
		o.set(belljar.PhaseFailed, belljar.ReasonKillFailed, "processes outlived every kill; the sandbox was destroyed")
	case e.Exit.Cause == wire.CauseEnded:
		o.stopped(e.Stopped)
	case e.Exit.Cause == wire.CauseTimeout:
		o.timedOut(e.Limits)
	case e.Exit.Cause == wire.CauseCPUTime:
		o.usedUp(e.Limits)
	case failed && ooms > 0:
		e.memory(&o)
		ooms = 0
	case failed && refused > 0 && !e.Usage.PidsBelow:
		o.set(belljar.PhaseFailed, belljar.ReasonPidsLimit,
			fmt.Sprintf("reached the limit of %d processes and threads%s", box.MaxProcesses(e.Limits), box.OrCrowded(e.Usage)))
		o.Hint = e.more(box.ProcessLimit(e.Limits))
		refused = 0
	case e.Exit.Cause == wire.CauseLost:
		o.set(belljar.PhaseFailed, belljar.ReasonSandboxDied, "the command's supervisor died; its exit status is lost")
	case o.Signal != "" && e.Stopped != nil: // a restart can end the interpreter first
		o.stopped(e.Stopped)
	case o.Signal != "":
		o.set(belljar.PhaseFailed, belljar.ReasonSignaled, "command was killed by "+o.Signal)
	case failed:
		o.set(belljar.PhaseFailed, belljar.ReasonNonZeroExit, fmt.Sprintf("command exited with status %d", *o.ExitCode))
		if *o.ExitCode == 126 && !e.WorkspaceExec {
			o.Hint = e.noexecHint()
		}
	default:
		o.Phase = belljar.PhaseCompleted
	}
	switch {
	case ooms > 0 && box.KilledByNode(e.Usage):
		o.Warn("%s killed because the node had no memory left (the sandbox's own limit, %d MiB, was not reached)", processes(ooms, ""), e.Limits.MemoryMB)
	case ooms > 0:
		o.Warn("%s killed for lack of memory (%s)", processes(ooms, ""), e.memoryLimit())
	}
	switch {
	case refused > 0 && e.Usage.PidsBelow:
		o.Warn("%s refused because %s", processes(refused, "new "), box.Crowded)
	case refused > 0:
		o.Warn("%s refused (limit %d%s)", processes(refused, "new "), box.MaxProcesses(e.Limits), box.OrCrowded(e.Usage))
	}
	if e.Exit.Dropped > 0 {
		o.Warn("output beyond %d bytes was dropped (%d bytes)", e.Limits.LogBytes, e.Exit.Position+e.Exit.Dropped-e.Limits.LogBytes)
	}
	return o
}

func processes(n int64, which string) string {
	if n == 1 {
		return "1 " + which + "process was"
	}
	return fmt.Sprintf("%d %sprocesses were", n, which)
}

// byLoss judges a command that ran and was lost with its sandbox, which killed its processes.
func (e Ending) byLoss() Outcome {
	o := Outcome{ExitCode: new(128 + 9), Signal: "SIGKILL"}
	switch {
	case e.Stopped != nil:
		o.stopped(e.Stopped)
	case e.Overdue:
		o.timedOut(e.Limits)
	default:
		e.died(&o)
	}
	return o
}

// died reports how the sandbox died.
func (e Ending) died(o *Outcome) {
	if e.Sandbox != nil && e.Sandbox.Reason == runtime.ExitOOM {
		e.memory(o)
		return
	}
	o.set(belljar.PhaseFailed, belljar.ReasonSandboxDied, "the sandbox died under the run")
	if e.Sandbox != nil {
		o.Message += ": " + e.Sandbox.String()
	} else if e.Err != nil {
		o.Message += ": " + e.Err.Error()
	}
}

func (o *Outcome) set(p belljar.Phase, r belljar.Reason, message string) {
	o.Phase, o.Reason, o.Message = p, r, message
}

// Warn adds a warning.
func (o *Outcome) Warn(format string, args ...any) {
	o.Warnings = append(o.Warnings, fmt.Sprintf(format, args...))
}

// anotherKey ends the hint to send a run again that is on record: a request with its key would only return it.
const anotherKey = ", with a new Idempotency-Key if it had one"

func (o *Outcome) stopped(why error) {
	o.set(belljar.PhaseKilled, belljar.ReasonCanceledByUser, string(belljar.ReasonCanceledByUser))
	var expired *fault.ExpiredError
	var node *admission.MemoryError
	var denied *fault.ApprovalError
	var own *belljar.Error
	switch {
	case errors.As(why, &denied):
		o.notApproved(denied)
	case errors.As(why, &node):
		o.nodeOutOfMemory(node.Error())
	case errors.As(why, &expired):
		o.set(belljar.PhaseKilled, belljar.ReasonSessionExpired, expired.Error())
	case errors.Is(why, fault.ErrShutdown):
		o.Message = fault.ErrShutdown.Error()
	case errors.Is(why, fault.ErrQueueTTL):
		o.set(belljar.PhaseFailed, belljar.ReasonQueueTTLExpired, fault.ErrQueueTTL.Error())
		o.Hint = "send it again when the server is less busy" + anotherKey
	case errors.As(why, &own): // its approval could not be put on record
		o.set(belljar.PhaseFailed, belljar.ReasonProvisionFailed, own.Error())
		o.Hint = own.Hint
	}
}

func (o *Outcome) notApproved(why *fault.ApprovalError) {
	o.set(belljar.PhaseFailed, belljar.ReasonPolicyDenied, why.Error())
	o.Hint = "ask for less, or ask the operator"
	if why.Approval.State == belljar.ApprovalExpired {
		o.Reason, o.Hint = belljar.ReasonApprovalExpired, "send it again when an operator is there"+anotherKey
	}
}

func (o *Outcome) timedOut(l belljar.Limits) {
	o.set(belljar.PhaseTimedOut, belljar.ReasonExecutionTimeout, fmt.Sprintf("command ran longer than %s", fault.Seconds(l.TimeoutSec)))
	o.Hint = "allow more with timeout_sec (--timeout)"
}

func (o *Outcome) usedUp(l belljar.Limits) {
	o.set(belljar.PhaseTimedOut, belljar.ReasonCPUTimeExceeded, fmt.Sprintf("command used more than %s of CPU time", fault.Seconds(l.CPUTimeSec)))
	o.Hint = "allow more with cpu_time_sec (--cpu-time)"
}

// memoryLimit describes the limit that was reached, by its real value.
func (e Ending) memoryLimit() string {
	limit := fmt.Sprintf("limit %d MiB", e.Limits.MemoryMB)
	if total := e.Usage.MemoryTotal; total != nil {
		limit += fmt.Sprintf(", %d MiB with files in memory", *total>>20)
	}
	return limit
}

// memory reports which memory limit a command reached.
func (e Ending) memory(o *Outcome) {
	if box.KilledByNode(e.Usage) {
		o.killedByNode(e.Limits.MemoryMB)
		return
	}
	o.outOfMemory(e)
}

func (o *Outcome) killedByNode(limit int) {
	o.nodeOutOfMemory(fmt.Sprintf("the node had no memory left, and a process was killed; its own limit, %d MiB, was not reached", limit))
}

func (o *Outcome) nodeOutOfMemory(message string) {
	o.set(belljar.PhaseFailed, belljar.ReasonNodeOutOfMemory, message)
	o.Hint = "send it again when the server is less busy" + anotherKey + "; an operator can allow all sandboxes more with SANDBOX_NODE_MEMORY_MB"
}

func (o *Outcome) outOfMemory(e Ending) {
	o.set(belljar.PhaseFailed, belljar.ReasonOOMKilled, "ran out of memory ("+e.memoryLimit()+")")
	o.Hint = e.more("memory_mb (--memory)")
}

// more advises a higher limit of the sandbox. A run in a session cannot set it.
func (e Ending) more(limit string) string {
	if e.InSession {
		return "make the session with more " + limit
	}
	return "allow more with " + limit
}

// Status returns a command's exit code, 128+n if signal n ended it, and that signal's name.
func Status(exit *wire.Exit) (*int, string) {
	if exit.Signal != 0 {
		return new(128 + exit.Signal), signalName(exit.Signal)
	}
	return new(exit.Code), ""
}

func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// shellState returns the state of the shell after a command; nil if it had none.
func shellState(exit *wire.Exit) *belljar.ShellState {
	if exit.Shell == nil {
		return nil
	}
	state := &belljar.ShellState{Cwd: exit.Cwd, State: belljar.ShellKept, Program: exit.Shell.Program}
	if exit.Shell.Replaced {
		state.State = belljar.ShellReplaced
	}
	return state
}

// LeftProcesses reports whether a command ended but its processes survived.
func LeftProcesses(exit *wire.Exit) bool { return exit != nil && exit.Cause == wire.CauseKillFailed }
