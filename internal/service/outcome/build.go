package outcome

import (
	"cmp"
	"fmt"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
)

// byBuild judges a program whose build failed.
func (e Ending) byBuild() Outcome {
	var o Outcome
	ooms, refused := value(e.Usage.OOMKills), value(e.Usage.PidsRefused)
	l, name := e.Limits, "the compiler"
	failed := func(message, hint string) {
		o.set(belljar.PhaseFailed, belljar.ReasonCompileFailed, message)
		o.Hint = hint
	}
	switch {
	case LeftProcesses(e.Build):
		o.set(belljar.PhaseFailed, belljar.ReasonKillFailed, "processes outlived every kill; the sandbox was destroyed")
	case e.Stopped != nil && (e.Build == nil || e.Build.Cause == wire.CauseEnded || succeeded(e.Build)):
		o.stopped(e.Stopped)
	case succeeded(e.Build) && e.Err != nil && !e.LeftBehind && e.Sandbox == nil:
		return e.byStart() // the program's memory limit could not be set
	case e.Overdue, e.Build != nil && e.Build.Cause == wire.CauseTimeout:
		failed(fmt.Sprintf("%s ran longer than %s", name, fault.Seconds(l.BuildTimeoutSec)), "allow more with build_timeout_sec (--build-timeout)")
	case box.KilledByNode(e.Usage):
		o.killedByNode(cmp.Or(l.BuildMemoryMB, l.MemoryMB))
	case ooms > 0, e.Build == nil && e.Sandbox.Reason == runtime.ExitOOM:
		hint := "allow more with build_memory_mb (--build-memory)"
		if e.InSession {
			hint = "make the session with more memory_mb (--memory)" // its sandbox has a single limit
		}
		failed(fmt.Sprintf("%s ran out of memory (limit %d MiB)", name, cmp.Or(l.BuildMemoryMB, l.MemoryMB)), hint)
	case refused > 0 && !e.Usage.PidsBelow:
		failed(fmt.Sprintf("%s reached the limit of %d processes and threads%s", name, box.MaxProcesses(l), box.OrCrowded(e.Usage)), e.more(box.ProcessLimit(l)))
	case e.LeftBehind:
		failed(fmt.Sprintf("%s left more memory in use than the program may have (%d MiB)", name, l.MemoryMB), "allow the program more with memory_mb (--memory)")
	case e.Build == nil:
		e.died(&o)
	case e.Build.Cause == wire.CauseLost:
		o.set(belljar.PhaseFailed, belljar.ReasonSandboxDied, "the compiler's supervisor died; its exit status is lost")
	case e.Build.Signal != 0:
		failed(name+" was killed by "+signalName(e.Build.Signal), "")
	default:
		failed(fmt.Sprintf("%s exited with status %d", name, e.Build.Code), "")
	}
	return o
}

// succeeded reports whether a build ended with a program.
func succeeded(build *wire.Exit) bool {
	return build != nil && build.Cause == wire.CauseExited && build.Code == 0 && build.Signal == 0
}
