package box_test

import (
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
		message, hint := box.NoProcess(belljar.Limits{Pids: tt.pids, NProc: tt.nproc})
		if !strings.Contains(message, fmt.Sprintf("(%d)", tt.most)) || !strings.Contains(hint, tt.name) {
			t.Errorf("%+v: %q, %q", tt, message, hint)
		}
	}
}

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
