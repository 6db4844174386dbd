//go:build linux

// Package fault has the errors that the agent reports to the host.
package fault

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/wire"
)

// ErrDisconnected means that a stream ended prematurely. It cannot be reported to the host.
var ErrDisconnected = errors.New("host has disconnected")

// New returns an error with a code.
func New(code wire.Code, format string, args ...any) *wire.Error {
	return &wire.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalid returns the error for an invalid request.
func Invalid(format string, args ...any) *wire.Error {
	return New(wire.CodeInvalid, format, args...)
}

// Protocol returns the error for a host that violates the protocol.
func Protocol(format string, args ...any) *wire.Error {
	return New(wire.CodeProtocol, format, args...)
}

// Of converts err to an error for the host.
func Of(err error) *wire.Error {
	var e *wire.Error
	if errors.As(err, &e) {
		return e
	}
	e = &wire.Error{Code: wire.CodeInternal, Message: err.Error()}
	var errno unix.Errno
	if errors.As(err, &errno) {
		e.Errno = int(errno)
	}
	switch {
	case errors.Is(err, wire.ErrFrame):
		e.Code = wire.CodeProtocol
	case IsEscape(err):
		e.Code = wire.CodePathEscapes
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		e.Code = wire.CodeNoSpace
	case errors.Is(err, unix.ENOTEMPTY):
		e.Code = wire.CodeInvalid
	case errors.Is(err, fs.ErrNotExist):
		e.Code = wire.CodeNotFound
	case errors.Is(err, fs.ErrExist):
		e.Code = wire.CodeExists
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		e.Code = wire.CodeDenied
	case errors.Is(err, unix.ELOOP):
		e.Code = wire.CodePathEscapes
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENXIO):
		e.Code = wire.CodeNotFile
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, unix.EINVAL):
		e.Code = wire.CodeInvalid
	case errors.Is(err, unix.EFBIG):
		e.Code = wire.CodeTooLarge
	}
	return e
}

// IsEscape recognises the error of os.Root for a path that leaves it, which is not exported.
func IsEscape(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if err.Error() == "path escapes from parent" {
			return true
		}
	}
	return false
}
