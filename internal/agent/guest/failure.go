//go:build linux

package guest

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/wire"
)

// errDisconnected is a stream that ended where it must not. Nobody is left to be told.
var errDisconnected = errors.New("host has gone")

func failure(code wire.Code, format string, args ...any) *wire.Error {
	return &wire.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *wire.Error {
	return failure(wire.CodeInvalid, format, args...)
}

func protocol(format string, args ...any) *wire.Error {
	return failure(wire.CodeProtocol, format, args...)
}

// asFailure says to the host what err is.
func asFailure(err error) *wire.Error {
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
	case isEscape(err):
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

// isEscape recognises the error of os.Root for a path that leaves it, which has no name.
func isEscape(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if err.Error() == "path escapes from parent" {
			return true
		}
	}
	return false
}
