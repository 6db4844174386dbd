package box

import (
	"errors"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/service/fault"
)

// FetchError reports that a sandbox's image could not be pulled.
type FetchError struct{ err error }

func (e *FetchError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *FetchError) Unwrap() error { return e.err }

// Reason returns the part of the error that the caller may see.
func (e *FetchError) Reason() *belljar.Error {
	var own *belljar.Error
	if errors.As(fault.Images(e.err), &own) && own.Code != belljar.CodeInternal {
		return own
	}
	return &belljar.Error{Code: belljar.CodeImageUnavailable, Message: "the image could not be made ready", Err: e.err, Hint: "the server's log has the reason"}
}
