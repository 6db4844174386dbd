package runtime_test

import (
	"context"
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

func spec() runtime.Spec {
	return runtime.Spec{
		ID: "one", Limits: belljar.DefaultLimits(), Workspace: runtime.Workspace{Bytes: 1, Inodes: 1, Medium: runtime.MediumMemory},
	}
}

func capable() runtime.Capabilities {
	return runtime.Capabilities{Available: true, Protections: []runtime.Protection{
		{Name: "moat", Enforced: true}, {Name: "wall", Hint: "build one"},
	}}
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*runtime.Spec, *runtime.Capabilities)
		step   string // "" for an error without a step, "none" for no error
		says   string
	}{
		"as it is":      {func(*runtime.Spec, *runtime.Capabilities) {}, "none", ""},
		"named network": {func(s *runtime.Spec, _ *runtime.Capabilities) { s.Network.Mode = runtime.NetworkNone }, "none", ""},
		"enforced":      {func(s *runtime.Spec, _ *runtime.Capabilities) { s.Require = []string{"moat"} }, "none", ""},
		"id":            {func(s *runtime.Spec, _ *runtime.Capabilities) { s.ID = "../one" }, "", `"../one" is not a sandbox id`},
		"network":       {func(s *runtime.Spec, _ *runtime.Capabilities) { s.Network.Mode = "bridge" }, "network", "bridge"},
		"disk":          {func(s *runtime.Spec, _ *runtime.Capabilities) { s.Workspace.Medium = runtime.MediumDisk }, "mount", "disk"},
		"no size":       {func(s *runtime.Spec, _ *runtime.Capabilities) { s.Workspace.Bytes = 0 }, "mount", "size"},
		"no inodes":     {func(s *runtime.Spec, _ *runtime.Capabilities) { s.Workspace.Inodes = -1 }, "mount", "inodes"},
		"not enforced":  {func(s *runtime.Spec, _ *runtime.Capabilities) { s.Require = []string{"moat", "wall"} }, "wall", "cannot be enforced"},
		"unknown":       {func(s *runtime.Spec, _ *runtime.Capabilities) { s.Require = []string{"drawbridge"} }, "drawbridge", "cannot be enforced"},
		"not available": {func(_ *runtime.Spec, c *runtime.Capabilities) {
			c.Available, c.Reasons = false, []runtime.Reason{{Step: "castle", Detail: "it has burnt down"}}
		}, "castle", "burnt down"},
	} {
		s, caps := spec(), capable()
		c.change(&s, &caps)
		err := s.Check(caps)
		var step *runtime.StepError
		switch {
		case c.step == "none":
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case err == nil, !strings.Contains(err.Error(), c.says), errors.As(err, &step) != (c.step != ""), step != nil && step.Step != c.step:
			t.Errorf("%s: %v, want step %q and %q", name, err, c.step, c.says)
		}
	}
}

// A blank ignores settings that a claim can change, and keeps those that it cannot.
func TestBlank(t *testing.T) {
	first := spec()
	blank := first.Blank()
	if blank.ID != "" || blank.Limits.MemoryMB >= first.Limits.MemoryMB || !reflect.DeepEqual(blank.Blank(), blank) {
		t.Errorf("%+v", blank)
	}
	for name, c := range map[string]struct {
		same   bool
		change func(*runtime.Spec)
	}{
		"id, lease, env":  {true, func(s *runtime.Spec) { s.ID, s.Lease, s.Root.Env = "two", time.Second, []string{"A=b"} }},
		"memory and time": {true, func(s *runtime.Spec) { s.Limits.MemoryMB, s.Limits.CPU = 9, 3 }},
		"processes":       {false, func(s *runtime.Spec) { s.Limits.Pids = 3 }},
		"tmp":             {false, func(s *runtime.Spec) { s.Limits.TmpMB++ }},
		"inodes":          {false, func(s *runtime.Spec) { s.Limits.Inodes++ }},
		"image":           {false, func(s *runtime.Spec) { s.Root.Digest = "sha256:1" }},
		"user":            {false, func(s *runtime.Spec) { s.Root.UID = 7 }},
		"workspace":       {false, func(s *runtime.Spec) { s.Workspace.Exec = true }},
		"protections":     {false, func(s *runtime.Spec) { s.Require = []string{"moat"} }},
	} {
		s := spec()
		c.change(&s)
		if same := reflect.DeepEqual(s.Blank(), blank); same != c.same {
			t.Errorf("%s: the same is %v\n%+v\n%+v", name, same, s.Blank(), blank)
		}
	}
	a, b := spec(), spec()
	a.Require, b.Require = []string{"moat", "wall"}, []string{"wall", "moat", "wall"}
	if !reflect.DeepEqual(a.Blank(), b.Blank()) {
		t.Error("the order of protections makes a difference")
	}
}

// stub is a runtime whose Create returns the test's error or a sandbox.
type stub struct {
	runtime.Runtime
	err     error
	removed *bool
}

func (s stub) Create(context.Context, runtime.Spec) (runtime.Sandbox, error) {
	if s.err != nil {
		return nil, s.err
	}
	return stubSandbox{removed: s.removed}, nil
}

type stubSandbox struct {
	runtime.Sandbox
	removed *bool
}

func (s stubSandbox) Destroy(context.Context) error { *s.removed = true; return nil }

func TestProve(t *testing.T) {
	removed := false
	if caps, err := runtime.TestSandbox(t.Context(), stub{removed: &removed}, capable()); err != nil || !caps.Available || !removed {
		t.Errorf("%+v, %v, removed %v", caps, err, removed)
	}
	for code, cause := range map[string]error{"host_permission_denied": fs.ErrPermission, "host_prerequisite_missing": errors.New("nothing there")} {
		caps, err := runtime.TestSandbox(t.Context(), stub{err: &runtime.StepError{Step: "moat", Err: cause, Hint: "dig"}}, capable())
		want := []runtime.Reason{{Code: code, Step: "moat", Detail: cause.Error(), Hint: "dig"}}
		if err != nil || caps.Available || !reflect.DeepEqual(caps.Reasons, want) {
			t.Errorf("%+v, %v", caps, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for ctx, err := range map[context.Context]error{ended: &runtime.StepError{Step: "moat", Err: context.Canceled}, t.Context(): errors.New("ours")} {
		if caps, got := runtime.TestSandbox(ctx, stub{err: err}, capable()); !errors.Is(got, err) || !caps.Available {
			t.Errorf("%v says something of the host: %+v, %v", err, caps, got)
		}
	}
}
