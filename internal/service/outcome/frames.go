package outcome

import "github.com/belljar/belljar"

// Frames returns the last frames of a run's log: an error of Belljar, if any, and the end.
func (o Outcome) Frames() []belljar.Frame {
	var list []belljar.Frame
	if o.Step != "" || o.Reason == belljar.ReasonProvisionFailed || o.Reason == belljar.ReasonImagePullFailed || o.Reason == belljar.ReasonSandboxDied {
		data := map[string]any{"reason_code": string(o.Reason), "message": o.Message}
		if o.Step != "" {
			data["step"] = o.Step
		}
		if o.Hint != "" {
			data["hint"] = o.Hint
		}
		list = append(list, belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventError, Data: data})
	}
	return append(list, EndFrame(belljar.Run{Phase: o.Phase, ExitCode: o.ExitCode, ReasonCode: o.Reason}, 0))
}

// EndFrame returns the end event of a run's log.
func EndFrame(run belljar.Run, seq uint64) belljar.Frame {
	data := map[string]any{"phase": string(run.Phase), "exit_code": nil, "reason_code": nil}
	if run.ExitCode != nil {
		data["exit_code"] = *run.ExitCode
	}
	if run.ReasonCode != "" {
		data["reason_code"] = string(run.ReasonCode)
	}
	return belljar.Frame{Seq: seq, Type: belljar.FrameEvent, Event: belljar.EventEnd, Data: data}
}

// ErrorFrame reports an error of Belljar.
func ErrorFrame(run belljar.Run) belljar.Frame {
	data := map[string]any{"reason_code": string(run.ReasonCode), "message": run.Message}
	if run.Hint != "" {
		data["hint"] = run.Hint
	}
	return belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventError, Data: data}
}
