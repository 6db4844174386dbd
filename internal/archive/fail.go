package archive

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/belljar/belljar"
)

// refuse returns the error for an entry that breaks a rule.
func refuse(rule, entry, format string, args ...any) *belljar.Error {
	return &belljar.Error{
		Code:    codeOf(rule),
		Message: fmt.Sprintf(format, args...),
		Details: map[string]any{"entry": shown(entry), "rule": rule},
	}
}

// special is like refuse, for an entry that is neither a file nor a folder.
func special(rule, entry, what string) *belljar.Error {
	e := refuse(rule, entry, "%s is %s", shown(entry), what)
	e.Hint = "uploads have files and folders only: tar -h --hard-dereference packs links as the files that they lead to"
	return e
}

// hintBroken is the hint for an archive that cannot be read.
const hintBroken = "the archive is damaged, incomplete or of another format: test it where it was made, make it again if it is bad, and send all of it"

// refuseArchive is like refuse, for a rule about a whole archive.
func refuseArchive(rule, format string, args ...any) *belljar.Error {
	e := refuse(rule, "", format, args...)
	delete(e.Details, "entry")
	e.Hint = hintBroken
	return e
}

// above is like refuse, for a rule that is a limit.
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

// shown returns a name that is safe to print: special characters escaped, long names truncated.
func shown(name string) string {
	const most = 200
	if len(name) > most {
		name = name[:most] + "…"
	}
	q := fmt.Sprintf("%q", name)
	return q[1 : len(q)-1]
}

// malformed returns err if it is a [belljar.Error], else the error for an unreadable archive. Its details have the archive's name, if it
// has one: an upload may have several.
func malformed(format belljar.UploadFormat, name string, err error) error {
	var e *belljar.Error
	if !errors.As(err, &e) {
		e = refuseArchive("malformed", "not a whole %s archive: %v", format, err)
		e.Err = err
		err = e
	}
	if e.Hint == hintBroken && name != "" {
		e.Details["entry"] = shown(name)
	}
	return err
}

// unreadable returns the error for a part whose body broke off.
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
		Hint: "the server stored nothing of it: send it again, all of it",
	}
}

// internal returns the error for a failure of this machine rather than of the upload.
func internal(doing string, err error) error {
	e := &belljar.Error{Code: belljar.CodeInternal, Message: doing, Err: err}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		e.Code = belljar.CodeDiskFull
	}
	return e
}
