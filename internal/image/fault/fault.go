// Package fault makes the errors of images: invalid images, images that are too large, and failures of the store itself.
package fault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/belljar/belljar"
)

// Invalid makes a [belljar.CodeImageInvalid] error: the data is not an image, or not an acceptable one.
func Invalid(rule, format string, args ...any) error {
	return &belljar.Error{
		Code: belljar.CodeImageInvalid, Message: fmt.Sprintf(format, args...), Details: map[string]any{"rule": rule},
	}
}

// RoomHint is the hint for a full disk.
const RoomHint = "remove images with belljar image prune, or free space on the disk"

// Named adds the image's name to an error. A caller of several images, or of a run, would not know which one failed.
func Named(ref string, err error) error {
	var (
		e    *belljar.Error
		what string
	)
	errors.As(err, &e)
	switch belljar.CodeOf(err) {
	case belljar.CodeImageInvalid:
		what = fmt.Sprintf("image %q cannot be used", ref)
	case belljar.CodeDiskFull:
		what = fmt.Sprintf("image %q cannot be kept", ref)
	}
	if e == nil || what == "" {
		return err
	}
	named := *e
	named.Message = what + ": " + e.Message
	named.Details = maps.Clone(e.Details)
	if named.Details == nil {
		named.Details = map[string]any{}
	}
	named.Details["image"] = ref
	if named.Code == belljar.CodeDiskFull && named.Hint == "" {
		named.Hint = RoomHint
	}
	return &named
}

// Wrap converts err to an error of the root package. It returns such errors and the end of ctx unchanged, and gives a full disk its own
// code. All other errors name what failed in doing.
func Wrap(doing string, err error) error {
	var e *belljar.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case fullDisk(err):
		return &belljar.Error{
			Code: belljar.CodeDiskFull, Message: "no room left for images", Hint: RoomHint,
			Details: map[string]any{"step": doing}, Err: err,
		}
	}
	return &belljar.Error{Code: belljar.CodeInternal, Message: "image store: " + doing, Err: err}
}

// ListedNames is how many names an error lists.
const ListedNames = 32

// TooLarge makes an error for data that is larger than limit.
func TooLarge(rule string, limit int64, format string, args ...any) error {
	err := Invalid(rule, format, args...)
	var e *belljar.Error
	if errors.As(err, &e) {
		e.Details["limit"] = limit
	}
	return err
}

// Printable makes a registry's text safe for a terminal and a log: one short line without control characters.
func Printable(s string) string {
	const most = 300
	out := make([]rune, 0, len(s))
	for _, c := range s {
		if len(out) == most {
			return string(out) + "…"
		}
		if !strconv.IsPrint(c) {
			c = ' '
		}
		out = append(out, c)
	}
	return string(out)
}
