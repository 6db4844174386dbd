package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
)

// fault returns the error for a failed operation on a path. It quotes no text of the agent: a program that took over the agent could forge it.
func (u *use) fault(path string, err error) error {
	var own *belljar.Error
	var refused *wire.Error
	switch {
	case errors.As(err, &own):
		return err
	case u.Context().Err() != nil:
		return u.ended()
	case errors.Is(err, errors.ErrUnsupported):
		return u.fail(path, err, refusal{belljar.CodeConflict, "agent_version", "this sandbox's agent is of a version that cannot compare files", "make a new session"})
	case errors.As(err, &refused):
		if refused.Path != "" {
			path = refused.Path
		}
		return u.fail(path, err, u.refusal(path, refused))
	case errors.Is(context.Cause(u.ctx), errAnswerTime):
		return u.fail(path, err, refusal{belljar.CodeTimeout, "", errAnswerTime.Error(), ""})
	case u.ctx.Err() != nil:
		return &belljar.Error{Code: belljar.CodeCanceled, Message: "the operation was canceled", Err: context.Cause(u.ctx)}
	case errors.Is(err, agent.ErrDisconnected), errors.Is(err, runtime.ErrGone):
		return u.gone(err)
	}
	return u.fail(path, err, refusal{belljar.CodeInternal, "", "the sandbox's agent failed", ""})
}

// packFault is fault for an archive.
func (u *use) packFault(path string, err error) error {
	if refused, is := errors.AsType[*wire.Error](err); is && refused.Code == wire.CodeChanged && u.Context().Err() == nil {
		return u.fail(cmp.Or(refused.Path, path), err, refusal{
			belljar.CodeConflict, "changed", "files changed while they were packed", "try again when programs write there no longer, or take a snapshot",
		})
	}
	return u.fault(path, err)
}

// gone distinguishes a sandbox that died from an agent that only closed its stream, which still responds.
func (u *use) gone(err error) error {
	ctx, cancel := context.WithTimeout(u.ctx, box.Dying)
	defer cancel()
	if _, dead := u.Agent.Ping(ctx); dead != nil {
		<-ctx.Done() // ends with the session, slightly later
	}
	if u.Context().Err() != nil {
		return u.ended()
	}
	return &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: "the sandbox's agent broke off", Details: map[string]any{"session_id": u.Session().ID},
		Hint: "too many operations at once may be the reason; try again", Err: err,
	}
}

// refusal is the error of a failed operation for the caller. rule is the detail of that name, "" for none.
type refusal struct {
	code                belljar.Code
	rule, message, hint string
}

// fail returns the error of an operation on a path that failed with err.
func (u *use) fail(path string, err error, r refusal) *belljar.Error {
	e := &belljar.Error{
		Code: r.code, Message: r.message, Hint: r.hint, Err: err,
		Details: map[string]any{"session_id": u.Session().ID, "path": cutText(path, 200)},
	}
	if r.rule != "" {
		e.Details["rule"] = r.rule
	}
	if r.code == belljar.CodeDiskFull {
		e.Details["scope"] = "workspace"
		e.Details["workspace_mb"] = u.Limits().WorkspaceMB
		if !u.Session().Workspace.OnDisk() { // a disk has files according to its size
			e.Details["inodes"] = u.Limits().Inodes
		}
	}
	return e
}

// larger is the hint for a file that does not fit.
func (u *use) larger() string {
	_, larger := fault.Larger(u.Session().Workspace)
	return "make a session with " + larger
}

// refusal translates an error of the agent.
func (u *use) refusal(path string, refused *wire.Error) refusal {
	named := func(format string) string { return fmt.Sprintf(format, cutText(path, 200)) }
	switch refused.Code {
	case wire.CodeNotFound:
		return refusal{belljar.CodeNotFound, "", named("%q does not exist"), ""}
	case wire.CodeExists:
		return refusal{belljar.CodeConflict, "exists", named("%q exists"), "set overwrite to replace it; a file and a folder never replace each other"}
	case wire.CodeChanged:
		return refusal{belljar.CodePrecondition, "", named("%q is not the file in If-Match, or is gone: nothing was written"), "read the file again, and send its new etag"}
	case wire.CodePathEscapes:
		return refusal{belljar.CodePathEscapes, "", named("%q leads out of the workspace, or through links without end"), "a symbolic link on the way points elsewhere"}
	case wire.CodeNotFile:
		return refusal{belljar.CodeConflict, "not_a_file", named("%q is not a regular file"), "only files are read and written; fs/list lists the files, fs/archive packs folders"}
	case wire.CodeDenied:
		return refusal{belljar.CodeConflict, "denied", named("%q: its permissions, or those of a folder above it, do not allow that"), "a program in the sandbox may change them with chmod"}
	case wire.CodeNoSpace: // a workspace has a limit of bytes and a limit of files
		return refusal{belljar.CodeDiskFull, "", "the workspace is full", "delete something, or " + u.larger() + "; GET fs/space reports what is used"}
	case wire.CodeTooLarge:
		return refusal{belljar.CodeTooLarge, "entries", named("%q has too many entries, is too deep, or is too large to be compared"), "take a folder below it, or write without If-Match"}
	case wire.CodeInvalid, wire.CodeInternal:
		switch refused.Errno {
		case wire.ENOTDIR:
			return refusal{belljar.CodeConflict, "not_a_folder", named("%q, or a parent of it, is not a folder"), ""}
		case wire.ENOTEMPTY:
			return refusal{belljar.CodeConflict, "not_empty", named("%q is a folder that is not empty"), "set recursive to delete a folder with all that is in it, and delete it before another takes its place"}
		case wire.ETIMEDOUT:
			return refusal{belljar.CodeTimeout, "", named("%q has so many files that only some were deleted in time"), "repeat the request to delete the rest; end programs that still write there"}
		case wire.ENAMETOOLONG:
			return refusal{belljar.CodeInvalidRequest, "", named("%q is too long"), ""}
		case wire.EXDEV:
			return refusal{belljar.CodeConflict, "other_file_system", named("%q is on another file system"), ""}
		}
		if refused.Code == wire.CodeInvalid {
			return refusal{belljar.CodeInvalidRequest, "", named("that cannot be done to %q"), ""}
		}
	case wire.CodeProtocol, wire.CodeUnsupported, wire.CodeVersion, wire.CodeExecFailed:
	}
	return refusal{belljar.CodeInternal, "", named("%q: the sandbox's agent failed"), ""}
}
