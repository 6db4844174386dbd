// Package fault makes the errors that several parts of the service return.
package fault

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/store"
)

// ShuttingDown refuses requests while the service closes. Most servers are started again, so clients retry for as long as after a
// broken connection: without retry_after_sec, they take the error for a permanent one.
func ShuttingDown() error {
	return &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: "belljar is shutting down", Details: map[string]any{"retry_after_sec": 5},
		Hint: "try again in a moment",
	}
}

// Outlived reports that the service closes before a run has ended that a request waits for.
func Outlived(run string) error {
	return &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: "belljar is shutting down", Details: map[string]any{"run_id": run},
		Hint: "look at the run before you send the request again: it has begun, and may continue; with the same Idempotency-Key, the answer is this run",
	}
}

// Above refuses a number above the server's maximum.
func Above(field string, most, provided float64) error {
	plain := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) } // no 1e+06
	return &belljar.Error{
		Code: belljar.CodePolicyDenied, Message: fmt.Sprintf("%s is limited to %s here, got %s", field, plain(most), plain(provided)),
		Details: map[string]any{"field": field, "provided": provided, "maximum": most},
	}
}

// Refuse refuses a field of a request.
func Refuse(field string, provided any, message string) error {
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: message, Details: map[string]any{"field": field, "provided": provided},
	}
}

// Forbidden refuses an operation that only operators may perform.
func Forbidden(what string) error {
	return &belljar.Error{Code: belljar.CodeForbidden, Message: "only an operator may " + what}
}

// Record wraps a failure of the store.
func Record(doing string, err error) error {
	if Full(err) {
		return DiskFull(err)
	}
	return &belljar.Error{Code: belljar.CodeInternal, Message: doing, Err: err}
}

// Unrecorded reports that a run, whose command may have taken effect, cannot be recorded now. Its end is recorded later.
func Unrecorded(run, state string, err error) error {
	e := &belljar.Error{Code: belljar.CodeInternal, Message: "the run " + state + ", but cannot be recorded yet", Err: err}
	if Full(err) {
		e.Code, e.Message = belljar.CodeDiskFull, "the run "+state+", but the server's disk is full, so that its record follows later"
	}
	e.Details, e.Hint = map[string]any{"run_id": run}, "read the run by its id before you send it again: its command may have taken effect"
	return e
}

// Full reports whether an error means that a disk is full.
func Full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, store.ErrFull) || errors.Is(err, blob.ErrFull)
}

// DiskFull reports that the server's disk is full.
func DiskFull(err error) error {
	return &belljar.Error{
		Code: belljar.CodeDiskFull, Message: "the server's disk is full", Err: err,
		Hint: "free space on the server's disk, or remove files if df -i shows no free inodes",
	}
}

// Larger returns the field of a request that sets the size of a workspace, and a larger workspace in the words of a hint.
func Larger(w belljar.Workspace) (field, larger string) {
	switch {
	case w.Volume != "":
		return "workspace.volume", "another volume with a larger workspace.mb (--disk)"
	case w.OnDisk():
		return "workspace.mb", "a disk with a larger workspace.mb (--disk)"
	}
	return "resources.workspace_mb", "a larger workspace_mb (--workspace)"
}

// RoomHint is the hint for a workspace that is full before a program runs: that of a new sandbox, or of a session.
func RoomHint(w belljar.Workspace, session bool) string {
	_, larger := Larger(w)
	switch {
	case session:
		return "delete something, or make a session with " + larger
	case w.Volume != "":
		return "delete something in the volume, or use " + larger
	}
	return "use " + larger
}

// As converts err to a [belljar.Error], an internal one unless it already is one.
func As(doing string, err error) error {
	if belljar.CodeOf(err) != belljar.CodeInternal {
		return err
	}
	return &belljar.Error{Code: belljar.CodeInternal, Message: doing, Err: err}
}

// Images wraps a failure of the image store.
func Images(err error) error {
	var own *belljar.Error
	switch {
	case err == nil, errors.As(err, &own):
		return err
	case Full(err):
		return DiskFull(err)
	case errors.Is(err, context.Canceled):
		return &belljar.Error{Code: belljar.CodeCanceled, Message: "the request was canceled", Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &belljar.Error{Code: belljar.CodeTimeout, Message: "the time for the request is over", Err: err}
	}
	return &belljar.Error{Code: belljar.CodeInternal, Message: "the images could not be reached", Err: err}
}

// Seconds formats a time for messages.
func Seconds(n float64) string {
	if n == 1 {
		return "1 second"
	}
	return fmt.Sprint(n, " seconds")
}
