package box_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
)

func TestNoProcess(t *testing.T) {
	for _, tt := range []struct {
		pids, nproc, most int
		name              string
	}{{64, 32, 32, "--nproc"}, {32, 64, 32, "--pids"}, {16, 16, 16, "--pids"}} {
		message, hint := box.NoProcess(belljar.Limits{Pids: tt.pids, NProc: tt.nproc}, runtime.Usage{})
		if !strings.Contains(message, fmt.Sprintf("(%d), or the host has no more", tt.most)) || !strings.Contains(hint, tt.name) {
			t.Errorf("%+v: %q, %q", tt, message, hint)
		}
		message, _ = box.NoProcess(belljar.Limits{Pids: tt.pids, NProc: tt.nproc}, runtime.Usage{Sources: map[string]string{"peak_pids": "cgroup2 pids.peak"}})
		if strings.Contains(message, "host") {
			t.Errorf("%+v with figures: %q", tt, message)
		}
	}
}

// A sandbox below its own limit is not the one to change.
func TestNoProcessOnTheHost(t *testing.T) {
	l, cause := belljar.Limits{Pids: 64, NProc: 64}, errors.New("fork")
	for below, want := range map[bool]belljar.Code{true: belljar.CodeRuntimeUnavailable, false: belljar.CodeQuotaExceeded} {
		err := box.NoProcessLeft(t.Context(), l, used{usage: runtime.Usage{PidsBelow: below}}, "s", cause)
		e, is := errors.AsType[*belljar.Error](err)
		if !is || e.Code != want || (e.Details["retry_after_sec"] != nil) != below || strings.Contains(e.Hint, "--pids") == below || !errors.Is(err, cause) {
			t.Errorf("below %v: %+v", below, e)
		}
	}
}

// used is a sandbox with a usage.
type used struct {
	runtime.Sandbox
	usage runtime.Usage
}

func (u used) Usage(context.Context) (runtime.Usage, error) { return u.usage, nil }

func TestNotReady(t *testing.T) {
	limits := belljar.Limits{StartupTimeoutSec: 1.5}
	step := &runtime.StepError{Step: "engine", Err: errors.New("it does not answer"), Hint: "start it"}
	message, hint := box.NotReady(limits, fmt.Errorf("create: %w", step))
	if !strings.Contains(message, "1.5 seconds") || !strings.Contains(message, "it does not answer") || hint != "start it" {
		t.Errorf("%q, %q", message, hint)
	}
	step.Err = fault.ErrStartupTimeout // the timeout itself is not a reason
	if message, hint := box.NotReady(limits, step); strings.Contains(message, ":") || hint != "" {
		t.Errorf("%q, %q", message, hint)
	}
}

func TestKilledByNode(t *testing.T) {
	none, one := int64(0), int64(1)
	for name, tt := range map[string]struct {
		usage runtime.Usage
		want  bool
	}{
		"nothing known":     {runtime.Usage{}, false},
		"limits unknown":    {runtime.Usage{OOMKills: &one}, false},
		"at its own limit":  {runtime.Usage{OOMKills: &one, LimitHits: &one}, false},
		"below its limit":   {runtime.Usage{OOMKills: &one, LimitHits: &none}, true},
		"nothing was ended": {runtime.Usage{OOMKills: &none, LimitHits: &none}, false},
	} {
		if got := box.KilledByNode(tt.usage); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
