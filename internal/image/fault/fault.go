// Package fault has the errors of images: what is no image, what is too large, and what the store itself failed at.
package fault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/belljar/belljar"
)

// Invalid is an [belljar.CodeImageInvalid] error: what came is no image, or one that is not let in.
func Invalid(rule, format string, args ...any) error {
	return &belljar.Error{
		Code: belljar.CodeImageInvalid, Message: fmt.Sprintf(format, args...), Details: map[string]any{"rule": rule},
	}
}

// RoomHint is what to do where there is no room.
const RoomHint = "remove images with belljar image prune, or free space on the disk"

// Named names the image that a fault is of, or that there is no room for: a caller that asks for several, or for a run, would not know.
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

// Wrap expresses err in the terms of the root package: errors of ours and the end of ctx as they are, a full disk as that,
// all else as what went wrong while doing.
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

// TooLarge is a fault: what came is larger than limit.
func TooLarge(rule string, limit int64, format string, args ...any) error {
	err := Invalid(rule, format, args...)
	var e *belljar.Error
	if errors.As(err, &e) {
		e.Details["limit"] = limit
	}
	return err
}

// Printable is text of a registry, fit for a terminal and a log: one short line without control characters.
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
