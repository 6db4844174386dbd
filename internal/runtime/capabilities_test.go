package runtime

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

// Whatever step has too many open files, the hint is about these, and not about what else the step can lack.
func TestFailedStep(t *testing.T) {
	for _, err := range []error{
		syscall.EMFILE, fmt.Errorf("claim user ids: %w", &fs.PathError{Op: "open", Path: "1", Err: syscall.EMFILE}), &fs.PathError{Op: "open", Path: "2", Err: syscall.ENFILE},
	} {
		for _, hint := range []string{"", "run belljar doctor"} {
			got := FailedStep("userns", err, hint)
			if got.Hint != "raise the limit of open files (ulimit -n)" || got.Step != "userns" || !errors.Is(got, err) {
				t.Errorf("%v, %q: %+v", err, hint, got)
			}
		}
	}
	if got := FailedStep("userns", syscall.EPERM, "run belljar doctor"); got.Hint != "run belljar doctor" {
		t.Errorf("another error: %+v", got)
	}
}
