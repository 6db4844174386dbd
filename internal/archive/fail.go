package archive

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/belljar/belljar"
)

// refuse names the rule that an entry breaks.
func refuse(rule, entry, format string, args ...any) *belljar.Error {
	return &belljar.Error{
		Code:    codeOf(rule),
		Message: fmt.Sprintf(format, args...),
		Details: map[string]any{"entry": shown(entry), "rule": rule},
	}
}

// refuseArchive is refuse for a rule about a whole archive.
func refuseArchive(rule, format string, args ...any) *belljar.Error {
	e := refuse(rule, "", format, args...)
	delete(e.Details, "entry")
	return e
}

// above is refuse for a rule that is a limit.
func above(rule, entry string, limit int64, format string, args ...any) *belljar.Error {
	e := refuse(rule, entry, format, args...)
	e.Details["limit"] = limit
	if entry == "" {
		delete(e.Details, "entry")
	}
	return e
}

func codeOf(rule string) belljar.Code {
	switch rule {
	case "traversal", "absolute", "backslash", "drive":
		return belljar.CodePathEscapes
	case "bytes", "files", "ratio":
		return belljar.CodeTooLarge
	}
	return belljar.CodeInvalidRequest
}

// shown is a name that may be printed: hostile characters escaped, hostile lengths cut.
func shown(name string) string {
	const most = 200
	if len(name) > most {
		name = name[:most] + "…"
	}
	q := fmt.Sprintf("%q", name)
	return q[1 : len(q)-1]
}

// malformed says that an archive cannot be read, unless err says something better.
func malformed(format belljar.UploadFormat, err error) error {
	var e *belljar.Error
	if errors.As(err, &e) {
		return err
	}
	out := refuseArchive("malformed", "not a whole %s archive: %v", format, err)
	out.Err = err
	return out
}

// unreadable says that the body of a part broke off.
func unreadable(ctx context.Context, err error) error {
	var e *belljar.Error
	switch {
	case errors.As(err, &e):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: "the upload broke off", Details: map[string]any{"rule": "cut_off"}, Err: err,
	}
}

// ours says that the machine failed, not the upload.
func ours(doing string, err error) error {
	e := &belljar.Error{Code: belljar.CodeInternal, Message: doing, Err: err}
	if errors.Is(err, syscall.ENOSPC) {
		e.Code = belljar.CodeDiskFull
	}
	return e
}
