package box

import (
	"context"
	"errors"
	"fmt"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/service/placement"
)

// Crowded is the reason if processes are refused to a sandbox that is below its own limit.
const Crowded = "the host has no more processes for sandboxes"

// FullRetrySec is the Retry-After in seconds of a refusal because the host has no room, until a sandbox or its processes end.
const FullRetrySec = 5

// OrCrowded is what a message about a sandbox's own limit on processes adds if the sandbox has no figure of its highest number, so that
// the host may be the reason: unprivileged, before Linux 6.1, and where the sandbox has a kernel of its own.
func OrCrowded(u runtime.Usage) string {
	if u.Sources["peak_pids"] != "" {
		return ""
	}
	return ", or " + Crowded
}

// NoProcess is the message and the hint for a session's sandbox in which no more processes can start, by its usage.
func NoProcess(l belljar.Limits, u runtime.Usage) (message, hint string) {
	if u.PidsBelow {
		return Crowded, "try again later, when fewer run in other sandboxes"
	}
	return fmt.Sprintf("the sandbox has as many processes as it may have (%d)%s", MaxProcesses(l), OrCrowded(u)),
		"end what runs in it, or make the session with more " + ProcessLimit(l)
}

// NoProcessLeft returns the error of a program that could not start in a session for that reason.
func NoProcessLeft(ctx context.Context, l belljar.Limits, sandbox runtime.Sandbox, session string, cause error) error {
	u, _ := sandbox.Usage(ctx) // without figures it is the session's own limit
	message, hint := NoProcess(l, u)
	if u.PidsBelow {
		return &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: message, Err: cause, Hint: hint,
			Details: map[string]any{"session_id": session, "retry_after_sec": FullRetrySec},
		}
	}
	return &belljar.Error{
		Code: belljar.CodeQuotaExceeded, Message: message, Err: cause,
		Details: map[string]any{"quota": "pids", "session_id": session}, Hint: hint,
	}
}

// HardLimit is the message and the hint for a program that may not have its limits, l in force, because this process may not.
func HardLimit(l belljar.Limits) (message, hint string) {
	return fmt.Sprintf("a hard limit of belljar itself is below what the program may have: %d open files, %d processes, files of %d MiB, CPU time for %s",
			l.NoFile, l.NProc, max(l.WorkspaceMB, l.TmpMB), fault.Seconds(float64(placement.CPUSeconds(l)))),
		"raise it: ulimit -Hn, -Hu, -Hf or -Ht, in systemd LimitNOFILE, LimitNPROC, LimitFSIZE or LimitCPU; " +
			"or ask for less: nofile (--nofile), nproc (--nproc), workspace_mb (--workspace), timeout_sec (--timeout)"
}

// AtHardLimit returns the error of a program that could not start for that reason. It is nil if err is another one.
func AtHardLimit(l belljar.Limits, err error) *belljar.Error {
	var refused *wire.Error
	if !errors.As(err, &refused) || refused.Code != wire.CodeExecFailed || refused.Step != wire.StepRlimits {
		return nil
	}
	message, hint := HardLimit(l)
	return &belljar.Error{Code: belljar.CodePolicyDenied, Message: message, Err: err, Details: map[string]any{"field": "resources"}, Hint: hint}
}

// MaxProcesses returns how many processes and threads l permits at the same time: the lower of its two limits.
func MaxProcesses(l belljar.Limits) int { return min(l.Pids, l.NProc) }

// ProcessLimit names the lower of the two limits on processes.
func ProcessLimit(l belljar.Limits) string {
	if l.NProc < l.Pids {
		return "nproc (--nproc)"
	}
	return "pids (--pids)"
}

// NotReady returns the message for a sandbox that was not ready within its startup timeout: the step that it waited for, with
// a hint, if the runtime reports that.
func NotReady(l belljar.Limits, err error) (message, hint string) {
	message = fmt.Sprintf("the sandbox was not ready after %s", fault.Seconds(l.StartupTimeoutSec))
	var step *runtime.StepError
	if errors.As(err, &step) && !errors.Is(step, fault.ErrStartupTimeout) && !errors.Is(step, context.DeadlineExceeded) && !errors.Is(step, context.Canceled) {
		return message + ": " + step.Err.Error(), step.Hint
	}
	return message, ""
}

// KilledByNode reports whether the kernel killed processes because the node had too little memory: the sandbox was below its own limit.
func KilledByNode(u runtime.Usage) bool {
	return u.LimitHits != nil && *u.LimitHits == 0 && u.OOMKills != nil && *u.OOMKills > 0
}
