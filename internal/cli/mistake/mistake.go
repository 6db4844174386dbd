// Package mistake makes the errors that commands report: a message about the caller's input, and a hint on what to do.
package mistake

import (
	"errors"
	"fmt"

	"github.com/belljar/belljar"
)

// New returns an error of the caller, with a hint on what to do and a message.
func New(hint, format string, args ...any) error {
	return &belljar.Error{Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// In prefixes an error with the item that failed.
func In(what string, err error) error {
	var e *belljar.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%s: %w", what, err)
	}
	own := *e
	own.Message = what + ": " + e.Message
	return &own
}

// Reason returns the short form of an error for messages that already name the file.
func Reason(err error) string {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok || inner.Unwrap() == nil {
			return err.Error()
		}
		err = inner.Unwrap()
	}
}
