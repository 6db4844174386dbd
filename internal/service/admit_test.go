//go:build linux

package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/fake"
	"github.com/belljar/belljar/internal/service"
)

// away is a runtime that is not available on this host.
type away struct{ runtime.Runtime }

func (away) Name() string { return "firecracker" }

func (away) Probe(context.Context) (runtime.Capabilities, error) {
	return runtime.Capabilities{Reasons: []runtime.Reason{{Detail: "no KVM", Hint: "enable nesting"}}}, nil
}

func TestRefusals(t *testing.T) {
	b := newBench(t, func(o *service.Options) {
		o.Runtimes = append(o.Runtimes, away{fake.New(fake.Options{})})
	})
	for _, test := range []struct {
		name    string
		change  func(*belljar.RunRequest)
		code    belljar.Code
		details map[string]any // required details
	}{
		{"no command", func(r *belljar.RunRequest) { r.Command = nil }, belljar.CodeInvalidRequest, map[string]any{"field": "command"}},
		{"spec version", func(r *belljar.RunRequest) { r.SpecVersion = "0.9" }, belljar.CodeInvalidSpecVersion,
			map[string]any{"supported": []string{"1.0", "1.1"}, "provided": "0.9"}},
		{"session", func(r *belljar.RunRequest) { r.BaseImage, r.SessionID = "", "s1" }, belljar.CodeNotFound, map[string]any{"session_id": "s1"}},
		{"unknown runtime", func(r *belljar.RunRequest) { r.Runtime = "lxc" }, belljar.CodeRuntimeUnavailable,
			map[string]any{"runtime": "lxc", "available": false, "suggested": []string{"fake"}}},
		{"absent runtime", func(r *belljar.RunRequest) { r.Runtime = "firecracker" }, belljar.CodeRuntimeUnavailable,
			map[string]any{"runtime": "firecracker", "available": false, "suggested": []string{"fake"}}},
		{"absent runtime and its image", func(r *belljar.RunRequest) { r.Runtime, r.BaseImage = "firecracker", "python:3" },
			belljar.CodeRuntimeUnavailable, map[string]any{"runtime": "firecracker", "available": false}},
		{"unknown image", func(r *belljar.RunRequest) { r.BaseImage = "python:3" }, belljar.CodeImageUnavailable,
			map[string]any{"image": "python:3", "available": []string{"host"}}},
		{"too much", func(r *belljar.RunRequest) { r.Resources.MemoryMB = 1 << 20 }, belljar.CodePolicyDenied,
			map[string]any{"field": "resources.memory_mb"}},
		{"network", func(r *belljar.RunRequest) { r.NetworkPolicy = "allowlist" }, belljar.CodePolicyDenied,
			map[string]any{"field": "network_policy"}},
		{"bad pattern", func(r *belljar.RunRequest) { r.CapturePatterns = []string{"a", "[x"} }, belljar.CodeInvalidRequest,
			map[string]any{"field": "capture_patterns[1]"}},
		{"many alternatives", func(r *belljar.RunRequest) { r.CapturePatterns = []string{strings.Repeat("{a,b}", 100)} },
			belljar.CodeInvalidRequest, map[string]any{"field": "capture_patterns[0]"}},
		{"secrets", func(r *belljar.RunRequest) { r.CapturePatterns = []string{"/run/secrets/**"} }, belljar.CodeInvalidRequest,
			map[string]any{"field": "capture_patterns[0]"}},
		{"unknown protection", func(r *belljar.RunRequest) { r.AllowWeak = []string{"everything"} }, belljar.CodeInvalidRequest,
			map[string]any{"field": "allow_weak"}},
		{"no spec version", func(r *belljar.RunRequest) { r.SpecVersion = "" }, belljar.CodeInvalidSpecVersion,
			map[string]any{"supported": []string{"1.0", "1.1"}, "provided": ""}},
		{"interactive in 1.0", func(r *belljar.RunRequest) { r.SpecVersion, r.Interactive = "1.0", true }, belljar.CodeInvalidRequest,
			map[string]any{"field": "interactive"}},
		{"too much input", func(r *belljar.RunRequest) { r.Interactive, r.StdinMaxBytes = true, 1<<40 }, belljar.CodePolicyDenied,
			map[string]any{"field": "stdin_max_bytes"}},
		{"seq that no stream begins with", func(r *belljar.RunRequest) { r.ResumeFromSeq = 1 << 53 }, belljar.CodeInvalidRequest,
			map[string]any{"field": "resume_from_seq"}},
		{"compiled code", func(r *belljar.RunRequest) { r.Command, r.Code, r.Language = nil, "x", "c" }, belljar.CodeInvalidRequest,
			map[string]any{"field": "workspace_exec"}},
	} {
		req := shell("true")
		test.change(&req)
		_, err := b.Start(t.Context(), req)
		var e *belljar.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v, want a belljar.Error", test.name, err)
			continue
		}
		if e.Code != test.code || e.Message == "" {
			t.Errorf("%s: %s %q, want %s", test.name, e.Code, e.Message, test.code)
		}
		for key, want := range test.details {
			if !cmp.Equal(e.Details[key], want) {
				t.Errorf("%s: details.%s is %v, want %v", test.name, key, e.Details[key], want)
			}
		}
	}
}

// The policy's versions apply only to versions that clients send: requests of the APIs have Belljar's own version.
func TestVersionOfDoors(t *testing.T) {
	b := newBench(t, func(o *service.Options) {
		o.Policy = service.DefaultPolicy()
		o.Policy.SupportedSpecVersions = []string{"1.0"}
	})
	s, err := b.mine().Create(b.context(), belljar.SessionRequest{SessionSpec: belljar.SessionSpec{SpecVersion: belljar.SpecVersion, BaseImage: "host"}})
	if err != nil {
		t.Fatal(err)
	}
	if r := b.run(in(s, "echo $0")); r.Phase != belljar.PhaseCompleted {
		t.Errorf("run %+v", r.Run)
	}
	if err := b.mine().Delete(b.context(), s.ID); err != nil {
		t.Error(err)
	}
}

func TestUnavailableSaysWhy(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.Runtimes = append(o.Runtimes, away{fake.New(fake.Options{})}) })
	req := shell("true")
	req.Runtime = "firecracker"
	_, err := b.Start(t.Context(), req)
	if err == nil || err.Error() != "Requested runtime 'firecracker' is not available: no KVM" || belljar.HintOf(err) != "enable nesting" {
		t.Errorf("%v, hint %q", err, belljar.HintOf(err))
	}
}

// A protection that cannot be enforced is refused before anything is built, unless an operator waives it.
func TestRequiredProtection(t *testing.T) {
	b := newBench(t, func(o *service.Options) { o.Require = []string{runtime.ProtectWallTime, runtime.ProtectMemory} })
	_, err := b.Start(t.Context(), shell("true"))
	var e *belljar.Error
	if !errors.As(err, &e) || e.Code != belljar.CodeRuntimeUnavailable || e.Details["protection"] != "memory" || e.Hint == "" {
		t.Errorf("%+v", err)
	}
	req := shell("true")
	req.AllowWeak = []string{runtime.ProtectMemory}
	if _, err := b.service.As(belljar.Caller{ID: "guest"}).Runs().Start(t.Context(), req); belljar.CodeOf(err) != belljar.CodePolicyDenied {
		t.Errorf("a stranger waives a protection: %v", err)
	}
	r := b.run(req)
	r.want(t, belljar.PhaseCompleted, 0, "")
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "memory") {
		t.Errorf("warnings %q", r.Warnings)
	}
}

func TestExecutionOff(t *testing.T) {
	b := newBench(t, func(o *service.Options) {
		o.Policy = service.DefaultPolicy()
		o.Policy.EnableExecution = false
	})
	if _, err := b.Start(t.Context(), shell("true")); belljar.CodeOf(err) != belljar.CodePolicyDenied {
		t.Errorf("%v", err)
	}
}

// A caller sees only their own runs, an operator all runs.
func TestCallersAreApart(t *testing.T) {
	b := newBench(t)
	mine, other := b.service.As(belljar.Caller{ID: "a"}), b.service.As(belljar.Caller{ID: "b"})
	run, err := mine.Runs().Start(t.Context(), shell("true"))
	if err != nil {
		t.Fatal(err)
	}
	b.follow(run.ID) // as an operator
	if _, err := mine.Runs().Get(t.Context(), run.ID); err != nil {
		t.Errorf("get: %v", err)
	}
	_, get := other.Runs().Get(t.Context(), run.ID)
	_, list := other.Artifacts().List(t.Context(), run.ID)
	_, _, open := other.Artifacts().Open(t.Context(), run.ID, "x", 0)
	var frames error
	for _, frames = range other.Runs().Frames(t.Context(), run.ID, 1) {
	}
	for what, err := range map[string]error{
		"get": get, "cancel": other.Runs().Cancel(t.Context(), run.ID), "artifacts": list, "open": open, "frames": frames,
	} {
		if belljar.CodeOf(err) != belljar.CodeNotFound {
			t.Errorf("%s of another's run: %v", what, err)
		}
	}
}
