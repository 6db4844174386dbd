package layer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/belljar/belljar"
)

// refuse names the rule that an entry breaks.
func refuse(rule, entry, format string, args ...any) *belljar.Error {
	return &belljar.Error{
		Code:    belljar.CodeImageInvalid,
		Message: fmt.Sprintf("layer entry %s: ", shown(entry)) + fmt.Sprintf(format, args...),
		Details: map[string]any{"entry": shown(entry), "rule": rule},
	}
}

// above is refuse for a rule that is a limit.
func above(rule, entry string, limit int64, format string, args ...any) *belljar.Error {
	e := refuse(rule, entry, format, args...)
	e.Details["limit"] = limit
	return e
}

// tooLong is the error for an archive without end.
func tooLong(limit int64) *belljar.Error {
	return &belljar.Error{
		Code: belljar.CodeImageInvalid, Message: "layer: the archive is longer than one with that many files can be",
		Details: map[string]any{"rule": "stream", "limit": limit},
	}
}

// shown is a name in quotes that may be printed: hostile characters escaped, hostile lengths cut.
func shown(name string) string {
	const most = 200
	if len(name) > most {
		name = name[:most] + "…"
	}
	return fmt.Sprintf("%q", name)
}

// failed returns what the machine could not do for an entry. A full disk has a code of its own; all else is internal.
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

// malformed reports that what comes after an entry is no tar.
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
