package terminal

import (
	"context"
	"errors"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
)

// startError returns the error for a terminal that could not be opened.
func (t *terminal) startError(ctx context.Context, err error) error {
	var failed *wire.Error
	switch {
	case errors.Is(err, fault.ErrStartupTimeout):
		return &belljar.Error{Code: belljar.CodeTimeout, Message: "the terminal did not start in time", Details: map[string]any{"session_id": t.sessionID}}
	case errors.Is(err, agent.ErrDisconnected), errors.Is(err, runtime.ErrGone):
		state := t.session.Session()
		if !state.State.Ended() { // its end will be detected soon
			state.State = belljar.SessionCrashed
		}
		return t.all.opts.Ended(t.session.Context(), state)
	case !errors.As(err, &failed):
		return err
	case failed.Code == wire.CodeExecFailed && failed.Step == "pty" && failed.Errno == wire.ENOSPC:
		return &belljar.Error{
			Code: belljar.CodeQuotaExceeded, Message: "the sandbox has no more terminals", Err: err,
			Details: map[string]any{"quota": "sandbox_terminals", "session_id": t.sessionID}, Hint: "close one, or end the programs that have some",
		}
	case failed.Code == wire.CodeExecFailed && failed.Errno == wire.EAGAIN:
		return box.NoProcessLeft(ctx, t.session.Limits(), t.box, t.sessionID, err)
	case failed.Code == wire.CodeExecFailed && failed.Step == wire.StepRlimits:
		return box.AtHardLimit(t.session.Limits(), err)
	case failed.Code == wire.CodeExecFailed:
		e := &belljar.Error{Code: belljar.CodeInvalidRequest, Message: failed.Message, Err: err, Details: map[string]any{"field": "command"}}
		if failed.Step != "lookup" && failed.Step != "exec" && failed.Step != "chdir" {
			e.Code, e.Message, e.Details = belljar.CodeInternal, "the terminal could not be started", map[string]any{"step": failed.Step}
		}
		return e
	case failed.Code == wire.CodeTooLarge:
		return &belljar.Error{Code: belljar.CodeQuotaExceeded, Message: failed.Message, Err: err}
	}
	return err
}
