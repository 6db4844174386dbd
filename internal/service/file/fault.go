package file

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// fault is the error that a caller gets for an operation on a path that failed. It quotes nothing that the agent says: a
// program that took over the agent could make that up.
func (u *use) fault(path string, err error) error {
	var own *belljar.Error
	var refused *wire.Error
	switch {
	case errors.As(err, &own):
		return err
	case u.Context().Err() != nil:
		return u.ended()
	case errors.As(err, &refused):
		return u.refusal(path, refused, err)
	case errors.Is(context.Cause(u.ctx), errAnswerTime):
		return &belljar.Error{Code: belljar.CodeTimeout, Message: errAnswerTime.Error(), Details: u.about(path), Err: err}
	case u.ctx.Err() != nil:
		return &belljar.Error{Code: belljar.CodeCanceled, Message: "the operation was given up", Err: context.Cause(u.ctx)}
	case errors.Is(err, agent.ErrDisconnected), errors.Is(err, runtime.ErrGone):
		return u.gone(err)
	}
	return &belljar.Error{Code: belljar.CodeInternal, Message: "the sandbox's agent failed", Details: u.about(path), Err: err}
}

// gone distinguishes a sandbox that died from an agent that only closed its stream.
func (u *use) gone(err error) error {
	late := time.NewTimer(time.Second)
	defer late.Stop()
	select {
	case <-u.Context().Done(): // the end of the session was noticed
		return u.ended()
	case <-late.C:
	}
	return &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: "the sandbox's agent broke off", Details: map[string]any{"session_id": u.Session().ID},
		Hint: "too many operations at once may be the reason; try again", Err: err,
	}
}

func (u *use) about(path string) map[string]any {
	return map[string]any{"session_id": u.Session().ID, "path": cutText(path, 200)}
}

// refusal translates an error of the agent.
func (u *use) refusal(path string, refused *wire.Error, err error) error {
	if refused.Path != "" {
		path = refused.Path
	}
	e := &belljar.Error{Code: belljar.CodeConflict, Details: u.about(path), Err: err}
	say := func(code belljar.Code, rule, format, hint string) error {
		e.Code, e.Hint = code, hint
		e.Message = fmt.Sprintf(format, cutText(path, 200))
		if rule != "" {
			e.Details["rule"] = rule
		}
		return e
	}
	switch refused.Code {
	case wire.CodeNotFound:
		return say(belljar.CodeNotFound, "", "%q does not exist", "")
	case wire.CodeExists:
		return say(belljar.CodeConflict, "exists", "%q exists", "set overwrite to replace it; a file and a folder never replace each other")
	case wire.CodePathEscapes:
		return say(belljar.CodePathEscapes, "", "%q leads out of the workspace, or through links without end", "a symbolic link on the way points elsewhere")
	case wire.CodeNotFile:
		return say(belljar.CodeConflict, "not_a_file", "%q is no regular file", "only files are read and written; fs/list shows what is there, fs/archive packs folders")
	case wire.CodeDenied:
		return say(belljar.CodeConflict, "denied", "%q: its permissions, or those of a folder above it, do not allow that", "a program in the sandbox may change them with chmod")
	case wire.CodeNoSpace:
		return u.full(path, err)
	case wire.CodeTooLarge:
		return say(belljar.CodeTooLarge, "entries", "%q has too many entries, or is too deep", "take a folder below it")
	case wire.CodeInvalid, wire.CodeInternal:
		switch refused.Errno {
		case wire.ENOTDIR:
			return say(belljar.CodeConflict, "not_a_folder", "%q, or what is above it, is no folder", "")
		case wire.ENOTEMPTY:
			return say(belljar.CodeConflict, "not_empty", "%q is a folder that is not empty", "set recursive to delete a folder with all that is in it; end programs that still write there")
		case wire.ENAMETOOLONG:
			return say(belljar.CodeInvalidRequest, "", "%q is too long", "")
		case wire.EXDEV:
			return say(belljar.CodeConflict, "other_file_system", "%q is on another file system", "")
		}
		if refused.Code == wire.CodeInvalid {
			return say(belljar.CodeInvalidRequest, "", "that cannot be done to %q", "")
		}
	case wire.CodeProtocol, wire.CodeUnsupported, wire.CodeVersion, wire.CodeExecFailed:
	}
	return say(belljar.CodeInternal, "", "%q: the sandbox's agent failed", "")
}

// full is the error of a full workspace. A workspace has a limit of bytes and one of files.
func (u *use) full(path string, err error) error {
	e := &belljar.Error{
		Code: belljar.CodeDiskFull, Message: "the workspace is full", Details: u.about(path), Err: err,
		Hint: "delete something, or make a session with a larger workspace_mb; GET fs/space tells what is used",
	}
	e.Details["scope"] = "workspace"
	e.Details["workspace_mb"], e.Details["inodes"] = u.Limits().WorkspaceMB, u.Limits().Inodes
	return e
}
