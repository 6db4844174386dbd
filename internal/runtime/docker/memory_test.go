package docker

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/belljar/belljar/internal/runtime"
)

// An engine's refusal of a limit below what the container holds differs from its other refusals.
func TestMemoryHeld(t *testing.T) {
	for text, held := range map[string]bool{
		"Cannot update container c1: runc did not terminate successfully: unable to set memory limit to 67108864 (current usage: 90177536, peak usage: 90181632)": true,
		"Cannot update container c1: writing file memory.limit_in_bytes: Device or resource busy":                                                                 true,
		"Cannot update container c1: cannot update a stopped container":                                                                                           false,
	} {
		r := answered(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(w, `{"message": %q}`, text)
		})
		s := r.sandbox("s", "c1", true, 1)
		s.memory, s.memoryMB = 128<<20, 128
		err := s.LimitMemory(t.Context(), 64)
		var step *runtime.StepError
		if !errors.As(err, &step) || errors.Is(err, runtime.ErrMemoryHeld) != held {
			t.Errorf("%s: %v", text, err)
		}
	}
}
