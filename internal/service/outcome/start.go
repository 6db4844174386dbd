package outcome

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/git"
)

// byStart judges a command that never ran.
func (e Ending) byStart() Outcome {
	var o Outcome
	var refused *wire.Error
	var step *runtime.StepError
	var fetching *box.FetchError
	var cloning *git.Error
	switch {
	case e.Stopped != nil:
		o.stopped(e.Stopped)
	case errors.Is(e.Err, fault.ErrStartupTimeout):
		message, hint := box.NotReady(e.Limits, e.Err)
		o.set(belljar.PhaseTimedOut, belljar.ReasonStartupTimeout, message)
		o.Hint = cmp.Or(hint, "allow more with startup_timeout_sec (--startup-timeout)")
	case errors.As(e.Err, &fetching):
		o.set(belljar.PhaseFailed, belljar.ReasonImagePullFailed, fetching.Reason().Message)
		o.Hint = fetching.Reason().Hint
	case errors.As(e.Err, &cloning):
		o.set(belljar.PhaseFailed, cloning.Reason, cloning.Err.Message)
		o.Step, o.Hint = "git", cloning.Err.Hint
	case belljar.CodeOf(e.Err) == belljar.CodePolicyDenied:
		o.set(belljar.PhaseFailed, belljar.ReasonPolicyDenied, e.Err.Error())
		o.Hint = belljar.HintOf(e.Err)
	case belljar.CodeOf(e.Err) == belljar.CodeConflict: // its context has changed, or a start command of its template failed
		o.set(belljar.PhaseFailed, belljar.ReasonExecFailed, e.Err.Error())
		o.Hint = belljar.HintOf(e.Err)
	case errors.As(e.Err, &refused) && refused.Code == wire.CodeExecFailed:
		e.execFailed(&o, refused)
	case e.Sandbox != nil:
		e.died(&o)
	case errors.As(e.Err, &step):
		o.set(belljar.PhaseFailed, belljar.ReasonProvisionFailed, "the sandbox could not be made: "+step.Error())
		o.Step, o.Hint = step.Step, step.Hint
	case errors.As(e.Err, &refused) && refused.Code == wire.CodeNoSpace:
		o.set(belljar.PhaseFailed, belljar.ReasonProvisionFailed, e.Err.Error())
		o.Step, o.Hint = "upload", fault.RoomHint(e.Workspace, e.InSession)
	default:
		o.set(belljar.PhaseFailed, belljar.ReasonProvisionFailed, "the sandbox could not be made")
		if e.Err != nil {
			o.Message = e.Err.Error()
			o.Hint = belljar.HintOf(e.Err)
		}
	}
	return o
}

func (e Ending) noexecHint() string {
	owner := "run"
	if e.InSession {
		owner = "session"
	}
	return "files in /workspace cannot be executed unless the " + owner + " allows it: workspace_exec (--workspace-exec)"
}

// execFailed explains why a program did not start, with a shell's exit codes: 127 not found, 126 not executable.
func (e Ending) execFailed(o *Outcome, refused *wire.Error) {
	o.set(belljar.PhaseFailed, belljar.ReasonExecFailed, "")
	o.ExitCode, o.Step = new(126), refused.Step
	if refused.Step == wire.StepChdir {
		e.noFolder(o, refused)
		return
	}
	if refused.Step == wire.StepPTY && refused.Errno != wire.EAGAIN { // the program itself is not at fault
		o.Message = refused.Message
		o.Hint = "it needs a terminal and, with its streams apart, room for named pipes in /tmp, /dev/shm or /run"
		return
	}
	if refused.Step == wire.StepRlimits {
		o.Message, o.Hint = box.HardLimit(e.Limits)
		return
	}
	switch refused.Errno {
	case wire.ENOENT, wire.ENOTDIR:
		o.ExitCode = new(127)
		o.Message = fmt.Sprintf("%s: not found in the sandbox", e.Command)
		o.Hint = "the image has no such program, or not the interpreter that its first line names"
		switch {
		case e.Building:
			o.Hint = "the image has no such compiler; take one that has"
		case strings.ContainsAny(e.Command, " \t"):
			o.Hint = "the command and its arguments are separate words; sh -c takes a line as one"
		}
	case wire.EACCES:
		o.Message = fmt.Sprintf("%s: permission denied", e.Command)
		o.Hint = "the file is not executable"
		if !e.WorkspaceExec && inWorkspace(e.Command) {
			o.Hint = e.noexecHint()
		}
	case wire.ENOEXEC:
		o.Message = fmt.Sprintf("%s: not a program that this machine can run", e.Command)
		o.Hint = "a script needs a first line such as #!/bin/sh; a binary must be built for this machine"
	case wire.E2BIG:
		o.Message = fmt.Sprintf("%s: its arguments and environment are too long", e.Command)
		o.Hint = "each argument and variable may have 128 KiB; send more as a file, or on standard input"
	case wire.EAGAIN:
		o.Message, o.Hint = box.NoProcess(e.Limits, e.Usage)
		o.Message = fmt.Sprintf("%s: %s", e.Command, o.Message)
		if !e.InSession && !e.Usage.PidsBelow {
			o.Hint = e.more(box.ProcessLimit(e.Limits))
		}
	default:
		o.Message = fmt.Sprintf("%s: %s", e.Command, strings.TrimPrefix(refused.Message, e.Command+": ")) // the agent's message also begins with the command
	}
}

// noFolder explains why a program did not start in its working directory.
func (e Ending) noFolder(o *Outcome, refused *wire.Error) {
	switch refused.Errno {
	case wire.ENOENT:
		o.Message, o.Hint = "the working directory does not exist", "make it first, or leave cwd out"
	case wire.ENOTDIR:
		o.Message, o.Hint = "the working directory is a file", "name a directory in cwd"
	case wire.EACCES:
		o.Message, o.Hint = "the working directory may not be entered", "give it permission to be searched"
	default:
		o.Message = "the working directory cannot be entered: " + refused.Message
	}
	if e.Cwd != "" {
		o.Message = e.Cwd + ": " + o.Message
	}
}

// inWorkspace reports whether a command names a file in the workspace, where commands start.
func inWorkspace(command string) bool {
	if !strings.Contains(command, "/") {
		return false
	}
	return !strings.HasPrefix(command, "/") || strings.HasPrefix(command, belljar.WorkspaceDir+"/")
}
