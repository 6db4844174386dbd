// Package mistake makes the errors that commands report: a message about what the caller gave, and a hint on what to do.
package mistake

import (
	"errors"
	"fmt"

	"github.com/belljar/belljar"
)

// New is a failure that is the caller's: what to do about it, and a message.
func New(hint, format string, args ...any) error {
	return &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// In puts what was asked for before an error, where one of several failed.
func In(what string, err error) error {
	var e *belljar.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%s: %w", what, err)
	}
	own := *e
	own.Message = what + ": " + e.Message
	return &own
}

// Reason is the short form of an error where the message names the file already.
func Reason(err error) string {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok || inner.Unwrap() == nil {
			return err.Error()
		}
		err = inner.Unwrap()
	}
}
