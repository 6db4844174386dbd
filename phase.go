package belljar

import "slices"

// Phase is the phase of a run (docs/compatibility.md#phases).
type Phase string

// The phases of a run. The last four are terminal.
const (
	PhaseQueued    Phase = "queued"
	PhaseStarting  Phase = "starting"
	PhaseRunning   Phase = "running"
	PhaseCompleted Phase = "completed"
	PhaseFailed    Phase = "failed"
	PhaseKilled    Phase = "killed"
	PhaseTimedOut  Phase = "timed_out"
)

// Terminal reports whether the phase is final.
func (p Phase) Terminal() bool {
	return p == PhaseCompleted || p == PhaseFailed || p == PhaseKilled || p == PhaseTimedOut
}

// next lists every phase that may follow p. A queued run can also be cancelled or expire.
func (p Phase) next() []Phase {
	switch p {
	case PhaseQueued:
		return []Phase{PhaseStarting, PhaseKilled, PhaseFailed}
	case PhaseStarting:
		return []Phase{PhaseRunning, PhaseFailed, PhaseTimedOut, PhaseKilled}
	case PhaseRunning:
		return []Phase{PhaseCompleted, PhaseFailed, PhaseTimedOut, PhaseKilled}
	}
	return nil
}

// CanBecome reports whether a run in phase p may move to phase q.
func (p Phase) CanBecome(q Phase) bool { return slices.Contains(p.next(), q) }

// Reason is why a run did not complete. It is set in every terminal phase except completed.
type Reason string

// Reasons (docs/compatibility.md#phases; those marked * are Belljar's own).
const (
	ReasonStartupTimeout   Reason = "startup_timeout"
	ReasonExecutionTimeout Reason = "execution_timeout"
	ReasonCPUTimeExceeded  Reason = "cpu_time_exceeded" // * its processes used more CPU time than cpu_time_sec
	ReasonOOMKilled        Reason = "oom_killed"
	ReasonPidsLimit        Reason = "pids_limit_exceeded"
	ReasonExecFailed       Reason = "exec_failed"
	ReasonCompileFailed    Reason = "compile_failed" // * the compiler failed, or reached a limit of the build
	ReasonProvisionFailed  Reason = "provision_failed"
	ReasonImagePullFailed  Reason = "image_pull_failed"
	ReasonPolicyDenied     Reason = "policy_denied"
	ReasonCanceledByUser   Reason = "canceled_by_user"
	ReasonNonZeroExit      Reason = "nonzero_exit"      // * the command ended with a status other than 0
	ReasonSignaled         Reason = "signaled"          // * a signal that belljar did not send ended the command
	ReasonQueueTTLExpired  Reason = "queue_ttl_expired" // *
	ReasonApprovalExpired  Reason = "approval_expired"  // * no operator approved it in time
	ReasonSandboxDied      Reason = "sandbox_died"      // * the sandbox disappeared during the run
	ReasonKillFailed       Reason = "kill_failed"       // * processes survived every kill; the sandbox was destroyed
	ReasonNodeLost         Reason = "node_lost"         // *
	ReasonSessionExpired   Reason = "session_expired"   // * its session reached its lifetime or idle timeout
	// * killed because the sandboxes together, or the host, ran out of memory, not because of its own limit
	ReasonNodeOutOfMemory Reason = "node_out_of_memory"
	ReasonCloneFailed     Reason = "clone_failed" // * its Git repository could not be cloned
	ReasonPatchFailed     Reason = "patch_failed" // * the patch for its Git repository does not apply
)
