package image

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/belljar/belljar"
)

// fault is an [belljar.CodeImageInvalid] error: what came is no image, or one that is not let in.
func fault(rule, format string, args ...any) error {
	return &belljar.Error{
		Code: belljar.CodeImageInvalid, Message: fmt.Sprintf(format, args...), Details: map[string]any{"rule": rule},
	}
}

// roomHint is what to do where there is no room.
const roomHint = "remove images with belljar image prune, or free space on the disk"

// of names the image that a fault is of, or that there is no room for: who asks for several, or for a run, would not know.
func of(ref string, err error) error {
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
		named.Hint = roomHint
	}
	return &named
}

// failed says err in the terms of the root package: errors of ours and the end of ctx as they are, a full disk as that,
// all else as what went wrong while doing.
func failed(doing string, err error) error {
	var e *belljar.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case fullDisk(err):
		return &belljar.Error{
			Code: belljar.CodeDiskFull, Message: "no room left for images", Hint: roomHint,
			Details: map[string]any{"step": doing}, Err: err,
		}
	}
	return &belljar.Error{Code: belljar.CodeInternal, Message: "image store: " + doing, Err: err}
}

// someNames is how many names an error lists.
const someNames = 32

// absent says that ref is not here, and what is.
func (s *Store) absent(ref string) error { return Absent(ref, s.Names()) }

// Absent says that ref is not here, and what is.
func Absent(ref string, there []string) error {
	if len(ref) > mostName {
		ref = ref[:64] + "…"
	}
	hint := "images here: " + strings.Join(there[:min(len(there), someNames)], ", ")
	if len(there) > someNames {
		hint += fmt.Sprintf(" and %d more", len(there)-someNames)
	}
	return &belljar.Error{
		Code:    belljar.CodeImageUnavailable,
		Message: fmt.Sprintf("image %q is not available", ref),
		Details: map[string]any{"image": ref, "available": there[:min(len(there), someNames)]},
		Hint:    hint,
	}
}

// closedError says that the store was closed.
func closedError() error {
	return &belljar.Error{Code: belljar.CodeCanceled, Message: "the image store is closing"}
}
