package image

import (
	"fmt"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/fault"
	"github.com/belljar/belljar/internal/image/reference"
)

// absent returns the error of a missing image; it lists the images in the store.
func (s *Store) absent(ref string) error { return Absent(ref, s.Names()) }

// hintedNames is how many names a hint lists.
const hintedNames = 10

// Absent returns the error of a missing image; there are the names of the images in the store.
func Absent(ref string, there []string) error {
	if len(ref) > reference.MaxName {
		ref = ref[:64] + "…"
	}
	hint := "images here: " + strings.Join(there[:min(len(there), hintedNames)], ", ")
	if len(there) > hintedNames {
		hint += fmt.Sprintf(" and %d more", len(there)-hintedNames)
	}
	return &belljar.Error{
		Code:    belljar.CodeImageUnavailable,
		Message: fmt.Sprintf("image %q is not available", ref),
		Details: map[string]any{"image": ref, "available": there[:min(len(there), fault.ListedNames)]},
		Hint:    hint,
	}
}

// closedError reports that the store was closed.
func closedError() error {
	return &belljar.Error{Code: belljar.CodeCanceled, Message: "the image store is closing"}
}
