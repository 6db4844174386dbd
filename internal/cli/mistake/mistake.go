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

// Some is the error of a command that completed only a part of its work. Its message is that of the last failure.
type Some struct {
	Done   any // results of the completed part
	Failed []error
}

func (s *Some) Error() string { return s.Unwrap().Error() }
func (s *Some) Unwrap() error { return s.Failed[len(s.Failed)-1] }

// JSON returns each failure in the form of the HTTP API.
func (s *Some) JSON() (failed []*belljar.Error) {
	for _, err := range s.Failed {
		failed = append(failed, JSON(err))
	}
	return failed
}

// JSON returns a failure in the form of the HTTP API.
func JSON(failure error) *belljar.Error {
	e := &belljar.Error{Code: belljar.CodeOf(failure), Message: failure.Error(), Hint: belljar.HintOf(failure)}
	if own, is := errors.AsType[*belljar.Error](failure); is {
		e.Details = own.Details
	}
	return e
}

// Of returns the error for failures, with the completed results; nil if there are no failures.
func Of(done any, failed []error) error {
	if len(failed) == 0 {
		return nil
	}
	return &Some{done, failed}
}

// Each calls do for each name. It returns the results of the successful calls, and the failures of the others.
func Each[T any](names []string, do func(name string) (T, error)) ([]T, error) {
	done := []T{}
	var failed []error
	for _, name := range names {
		if got, err := do(name); err != nil {
			failed = append(failed, In(name, err))
		} else {
			done = append(done, got)
		}
	}
	return done, Of(done, failed)
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
