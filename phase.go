package belljar

// Phase is where a run stands (S0 "State Machine (Runs)").
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

// Terminal reports whether a run in this phase has ended for good.
func (p Phase) Terminal() bool {
	switch p {
	case PhaseCompleted, PhaseFailed, PhaseKilled, PhaseTimedOut:
		return true
	}
	return false
}

// next lists every transition that S0 allows. A queued run can also be cancelled or expire (DESIGN decision).
var next = map[Phase][]Phase{
	PhaseQueued:   {PhaseStarting, PhaseKilled, PhaseFailed},
	PhaseStarting: {PhaseRunning, PhaseFailed, PhaseTimedOut, PhaseKilled},
	PhaseRunning:  {PhaseCompleted, PhaseFailed, PhaseTimedOut, PhaseKilled},
}

// CanBecome reports whether a run in phase p may move to phase q.
func (p Phase) CanBecome(q Phase) bool {
	for _, n := range next[p] {
		if n == q {
			return true
		}
	}
	return false
}

// Reason says why a run did not simply complete. It is set whenever the terminal phase is not completed.
type Reason string

// Reasons (S0 `reason_code`; those marked * are Belljar's own).
const (
	ReasonStartupTimeout   Reason = "startup_timeout"
	ReasonExecutionTimeout Reason = "execution_timeout"
	ReasonOOMKilled        Reason = "oom_killed"
	ReasonPidsLimit        Reason = "pids_limit_exceeded"
	ReasonExecFailed       Reason = "exec_failed"
	ReasonProvisionFailed  Reason = "provision_failed"
	ReasonImagePullFailed  Reason = "image_pull_failed"
	ReasonPolicyDenied     Reason = "policy_denied"
	ReasonCanceledByUser   Reason = "canceled_by_user"
	ReasonNonZeroExit      Reason = "nonzero_exit"      // * the command ended with a status other than 0
	ReasonSignaled         Reason = "signaled"          // * the command was ended by a signal nobody here sent
	ReasonQueueTTLExpired  Reason = "queue_ttl_expired" // *
	ReasonSandboxDied      Reason = "sandbox_died"      // * the jar went away under the run
	ReasonKillFailed       Reason = "kill_failed"       // * processes survived every kill; the sandbox was destroyed
	ReasonNodeLost         Reason = "node_lost"         // *
)

// ReasonLogCap marks a log that was cut at its cap. It is a warning and a frame, never a failure (S0 §23).
const ReasonLogCap Reason = "log_cap_exceeded"
