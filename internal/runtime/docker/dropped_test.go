package docker_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/docker"
)

// errDropped makes the engine close the connection instead of an answer.
var errDropped = errors.New("dropped")

// A connection that breaks while a container is made costs one more attempt, without what the first may have made.
func TestDroppedConnection(t *testing.T) {
	for drops, step := range map[int]string{1: "attach", 5: "engine"} { // this engine has no answer to attach
		e, creates := newEngine(), 0
		e.create = func(*container.InspectResponse) error {
			if creates++; creates <= drops {
				return errDropped
			}
			return nil
		}
		_, err := talk(t, e, docker.Options{}).Create(t.Context(), spec("x"))
		if got := (*runtime.StepError)(nil); !errors.As(err, &got) || got.Step != step || creates != 2 {
			t.Errorf("%d drops: %v after %d attempts", drops, err, creates)
		}
		var calls []string
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, call := range e.calls {
			if verb, path, _ := strings.Cut(call, " "); verb == "DELETE" || path == "/containers/create" {
				calls = append(calls, verb)
			}
		}
		if want := []string{"POST", "DELETE", "POST", "DELETE"}; !slices.Equal(calls, want) || e.made != nil {
			t.Errorf("%d drops: %v, left %v", drops, calls, e.made)
		}
	}
}

// An engine may make a container after the connection has broken. The next attempt removes that, or reports the broken connection.
func TestDroppedConnectionOfASlowEngine(t *testing.T) {
	for late, want := range map[int]struct {
		step     string
		patience time.Duration
	}{1: {"attach", 0}, 3: {"attach", 0}, 1 << 20: {"engine", time.Second}} { // this engine has no answer to attach
		e, creates := newEngine(), 0
		e.late = late
		e.create = func(*container.InspectResponse) error {
			if creates++; creates == 1 {
				return errDropped
			}
			return nil
		}
		_, err := talk(t, e, docker.Options{Patience: want.patience}).Create(t.Context(), spec("x"))
		if got := (*runtime.StepError)(nil); !errors.As(err, &got) || got.Step != want.step {
			t.Errorf("%d late: %v", late, err)
		}
		e.mu.Lock()
		if want.step == "attach" && e.made != nil {
			t.Errorf("%d late: left %v", late, e.made)
		}
		e.mu.Unlock()
	}
}
