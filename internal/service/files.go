package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
)

// fileTime bounds an operation on files that carries no contents.
const fileTime = time.Minute

// files is the workspaces of sessions as one caller sees them.
type files struct{ view }

var _ belljar.Files = files{}

// errFileTime ends an operation that takes too long.
var errFileTime = errors.New("the sandbox did not answer in time")

// fileUse is one use of a session's workspace.
type fileUse struct {
	*box.Box
	x   *session
	ctx context.Context // ends with the caller's, with the session, and with its time
	end func()
}

// use begins an operation that carries no contents.
func (v files) use(ctx context.Context, id string) (*fileUse, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fileTime, errFileTime)
	u, err := v.stream(ctx, id)
	if err != nil {
		cancel()
		return nil, err
	}
	end := u.end
	u.end = func() {
		end()
		cancel()
	}
	return u, nil
}

// stream begins an operation that takes as long as its caller.
func (v files) stream(ctx context.Context, id string) (*fileUse, error) {
	x, err := v.service.session(v.caller, id)
	if err != nil {
		return nil, err
	}
	j, err := x.acquire(ctx)
	if err != nil {
		return nil, err
	}
	u := &fileUse{Box: j, x: x}
	var stop context.CancelCauseFunc
	u.ctx, stop = context.WithCancelCause(ctx)
	// A session that ends does not wait for one who is slow to send or to read: what he holds breaks off.
	release := sync.OnceFunc(x.release)
	unhook := context.AfterFunc(x.ctx, func() {
		stop(context.Cause(x.ctx))
		release()
	})
	u.end = func() {
		unhook()
		stop(nil)
		release()
	}
	return u, nil
}

// wrote records that files got into a workspace.
func (u *fileUse) wrote(v view, bytes, files int64) {
	state := u.x.snapshot()
	v.service.opts.Events.Record(event.Event{
		Name: event.Uploaded, Time: v.service.clock.Now(), Caller: v.caller, Session: &state, Runtime: state.Runtime, Component: component,
		Kind: string(belljar.UploadFile), Count: bytes, Files: files,
	})
}

// filePath makes a path of a request relative to the workspace.
func filePath(field, given string) (string, error) {
	switch {
	case given == "":
		return "", badPath(field, given, "is required")
	case strings.ContainsRune(given, 0):
		return "", badPath(field, given, "contains a NUL byte")
	case !utf8.ValidString(given):
		return "", badPath(field, given, "is not valid UTF-8")
	}
	clean, err := belljar.CleanPath(given)
	if err != nil {
		e := badPath(field, given, "leads out of the workspace")
		e.Code, e.Hint = belljar.CodePathEscapes, "name a path relative to "+belljar.WorkspaceDir+", without .."
		return "", e
	}
	if err := belljar.CheckPlace(clean); err != nil {
		e := badPath(field, given, "")
		e.Message = field + ": " + err.Error()
		e.Details["maximum"], e.Details["maximum_name"] = belljar.MaxPathBytes, belljar.MaxNameBytes
		return "", e
	}
	return clean, nil
}

// folderPath is filePath for what may be the workspace itself, as when nothing is given.
func folderPath(field, given string) (string, error) {
	if given == "" {
		return ".", nil
	}
	return filePath(field, given)
}

// namedPath is filePath for what must not be the workspace itself.
func namedPath(field, given string) (string, error) {
	clean, err := filePath(field, given)
	if err == nil && clean == "." {
		e := badPath(field, given, "is the workspace itself")
		e.Hint = "name something in it"
		return "", e
	}
	return clean, err
}

func badPath(field, given, why string) *belljar.Error {
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("%s %.100q %s", field, given, why),
		Details: map[string]any{"field": field, "provided": cutText(given, 200)},
	}
}

// cutText is at most n bytes of text, of whole characters.
func cutText(text string, n int) string {
	if len(text) > n {
		text = text[:n] + "…"
	}
	return strings.ToValidUTF8(text, "�")
}

// Numbers of Linux errors that the agent tells.
const (
	agentEXDEV        = 18
	agentENOTDIR      = 20
	agentENAMETOOLONG = 36
	agentENOTEMPTY    = 39
)

// fault is what a caller hears of an operation that failed. path is what it was done to. None of the words is the
// agent's: whoever broke into it could make them up.
func (u *fileUse) fault(path string, err error) error {
	var own *belljar.Error
	var refused *wire.Error
	switch {
	case errors.As(err, &own):
		return err
	case u.x.ctx.Err() != nil:
		return sessionEnded(u.x.snapshot())
	case errors.As(err, &refused):
		return u.refusal(path, refused, err)
	case errors.Is(context.Cause(u.ctx), errFileTime):
		return &belljar.Error{Code: belljar.CodeTimeout, Message: errFileTime.Error(), Details: u.about(path), Err: err}
	case u.ctx.Err() != nil:
		return &belljar.Error{Code: belljar.CodeCanceled, Message: "the operation was given up", Err: context.Cause(u.ctx)}
	case errors.Is(err, agent.ErrDisconnected), errors.Is(err, runtime.ErrGone):
		return u.gone(err)
	}
	return &belljar.Error{Code: belljar.CodeInternal, Message: "the sandbox's agent failed", Details: u.about(path), Err: err}
}

// gone tells a sandbox that has died from an agent that only broke off.
func (u *fileUse) gone(err error) error {
	late := time.NewTimer(time.Second)
	defer late.Stop()
	select {
	case <-u.x.ctx.Done(): // its end has been noticed
		return sessionEnded(u.x.snapshot())
	case <-late.C:
	}
	return &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: "the sandbox's agent broke off", Details: map[string]any{"session_id": u.x.id},
		Hint: "too many operations at once may be the reason; try again", Err: err,
	}
}

func (u *fileUse) about(path string) map[string]any {
	return map[string]any{"session_id": u.x.id, "path": cutText(path, 200)}
}

// refusal translates what the agent refused.
func (u *fileUse) refusal(path string, refused *wire.Error, err error) error {
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
		case agentENOTDIR:
			return say(belljar.CodeConflict, "not_a_folder", "%q, or what is above it, is no folder", "")
		case agentENOTEMPTY:
			return say(belljar.CodeConflict, "not_empty", "%q is a folder that is not empty", "set recursive to delete a folder with all that is in it; end programs that still write there")
		case agentENAMETOOLONG:
			return say(belljar.CodeInvalidRequest, "", "%q is too long", "")
		case agentEXDEV:
			return say(belljar.CodeConflict, "other_file_system", "%q is on another file system", "")
		}
		if refused.Code == wire.CodeInvalid {
			return say(belljar.CodeInvalidRequest, "", "that cannot be done to %q", "")
		}
	case wire.CodeProtocol, wire.CodeUnsupported, wire.CodeVersion, wire.CodeExecFailed:
	}
	return say(belljar.CodeInternal, "", "%q: the sandbox's agent failed", "")
}

// full says that a workspace is. It has a bound of bytes and one of files.
func (u *fileUse) full(path string, err error) error {
	e := &belljar.Error{
		Code: belljar.CodeDiskFull, Message: "the workspace is full", Details: u.about(path), Err: err,
		Hint: "delete something, or make a session with a larger workspace_mb; GET fs/space tells what is used",
	}
	e.Details["scope"] = "workspace"
	e.Details["workspace_mb"], e.Details["inodes"] = u.x.plan.limits.WorkspaceMB, u.x.plan.limits.Inodes
	return e
}

// fileEntry is a file as callers see it.
func fileEntry(f wire.FileInfo) belljar.FileEntry {
	return belljar.FileEntry{
		Path: f.Path, Type: f.Type, Size: f.Size, Mode: fmt.Sprintf("%04o", f.Mode&0o7777), MtimeUnix: time.Unix(0, f.ModTime).Unix(), Target: f.Target,
	}
}
