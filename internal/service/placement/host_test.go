package placement

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar/internal/runtime"
)

// unsound is a runtime whose probe shows nothing and whose test may fail.
type unsound struct {
	runtime.Runtime
	why   string // refuses
	err   error  // shows nothing
	tests int
}

func (u *unsound) Name() string { return "unsound" }

func (u *unsound) Probe(context.Context) (runtime.Capabilities, error) {
	return runtime.Capabilities{Available: true}, nil
}

func (u *unsound) Test(ctx context.Context) (runtime.Capabilities, error) {
	u.tests++
	caps, _ := u.Probe(ctx)
	if u.why != "" {
		caps.Refuse(runtime.Reason{Step: "userns", Detail: u.why, Hint: "allow them"})
	}
	return caps, u.err
}

// If a sandbox cannot be made, a test finds out whether the runtime has stopped working. Only a test then finds that it works again.
// Tests are rare.
func TestBrokenRuntimeIsTested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &unsound{}
		h := NewHost(u)
		fault := &runtime.StepError{Step: "mount", Err: errors.New("no")}
		check := func(when string, available bool, explained string, tests int) {
			t.Helper()
			if why := h.Explain(t.Context(), fault); !strings.Contains(why.Error(), explained) {
				t.Errorf("%s: %v", when, why)
			}
			caps, err := h.Capabilities(t.Context())
			if err != nil || caps.Available != available || h.Trouble() == 0 != available || u.tests != tests {
				t.Errorf("%s: %+v, %v, after %d tests", when, caps, err, u.tests)
			}
		}
		check("a fault of one request", true, "mount: no", 1)
		check("another one just then", true, "mount: no", 1)
		time.Sleep(testEvery)
		u.why = "no user namespaces"
		check("broken", false, u.why, 2)
		check("just then", false, u.why, 2)
		time.Sleep(testEvery)
		u.err = fmt.Errorf("test: %w", runtime.ErrFull)
		check("a test that shows nothing", false, u.why, 3)
		time.Sleep(testEvery)
		u.why, u.err = "", nil
		check("repaired", true, "mount: no", 4)
	})
}
