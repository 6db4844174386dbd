package layer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/belljar/belljar"
)

// refuse makes an error that names the rule that an entry breaks.
func refuse(rule, entry, format string, args ...any) *belljar.Error {
	return &belljar.Error{
		Code:    belljar.CodeImageInvalid,
		Message: fmt.Sprintf("layer entry %s: ", shown(entry)) + fmt.Sprintf(format, args...),
		Details: map[string]any{"entry": shown(entry), "rule": rule},
	}
}

// above makes an error for an exceeded limit.
func above(rule, entry string, limit int64, format string, args ...any) *belljar.Error {
	e := refuse(rule, entry, format, args...)
	e.Details["limit"] = limit
	return e
}

// tooLong makes the error for an endless archive.
func tooLong(limit int64) *belljar.Error {
	return &belljar.Error{
		Code: belljar.CodeImageInvalid, Message: "layer: the archive is longer than one with that many files can be",
		Details: map[string]any{"rule": "stream", "limit": limit},
	}
}

// shown returns a name in quotes that can be printed: special characters are escaped, long names cut.
func shown(name string) string {
	const most = 200
	if len(name) > most {
		name = name[:most] + "…"
	}
	return fmt.Sprintf("%q", name)
}

// failed makes an error for an operation on an entry that the system refused. A full disk has a code of its own; all
// others are internal.
func failed(doing, entry string, err error) error {
	var e *belljar.Error
	if errors.As(err, &e) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	out := &belljar.Error{
		Code: belljar.CodeInternal, Message: doing + " " + shown(entry), Details: map[string]any{"entry": shown(entry)}, Err: err,
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		out.Code = belljar.CodeDiskFull
		out.Message = "no room to unpack " + shown(entry)
	}
	return out
}

// malformed makes an error for data after an entry that is not tar.
func malformed(after string, err error) error {
	rule, what := "malformed", "no whole tar archive"
	if errors.Is(err, io.ErrUnexpectedEOF) {
		rule, what = "cut_off", "the archive is cut off"
	}
	where := " at its beginning"
	details := map[string]any{"rule": rule}
	if after != "" {
		where = " at or after entry " + shown(after)
		details["entry"] = shown(after)
	}
	return &belljar.Error{Code: belljar.CodeImageInvalid, Message: "layer: " + what + where, Details: details, Err: err}
}
