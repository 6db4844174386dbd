package outcome

import (
	"errors"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

const lostHint = "send it again, with a new Idempotency-Key if it had one: the same key returns this run"

// AsLost makes a run of a previous process fail with the reason why.
func AsLost(run *belljar.Run, why error) {
	run.Phase, run.ReasonCode, run.Message = belljar.PhaseFailed, belljar.ReasonNodeLost, why.Error()
	if errors.Is(why, fault.ErrLost) {
		run.Hint = lostHint
		return
	}
	run.Message = "belljar was restarted while the run was queued, and the run can no longer start: " + why.Error()
	run.Hint = belljar.HintOf(why)
	switch belljar.CodeOf(why) {
	case belljar.CodePolicyDenied:
		run.ReasonCode = belljar.ReasonPolicyDenied
	case belljar.CodeImageUnavailable:
		run.ReasonCode = belljar.ReasonImagePullFailed
	default:
		run.ReasonCode = belljar.ReasonProvisionFailed
	}
}

// AsLogged ends a run of a previous process with the end event of its log.
func AsLogged(run *belljar.Run, end belljar.Frame) {
	phase, _ := end.Data["phase"].(string)
	reason, _ := end.Data["reason_code"].(string)
	run.Phase, run.ReasonCode = belljar.Phase(phase), belljar.Reason(reason)
	if !run.Phase.Terminal() {
		AsLost(run, fault.ErrLost) // an end event without an outcome: a defect
	}
	if run.ReasonCode == belljar.ReasonCanceledByUser {
		run.Message = string(run.ReasonCode) // the event has no message, and clients expect this one
	}
	switch code := end.Data["exit_code"].(type) {
	case float64:
		run.ExitCode = new(int(code))
	case int:
		run.ExitCode = &code
	}
}
