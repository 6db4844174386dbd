package docker

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/system"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
)

// A container is made with the OCI runtime that the engine reported as its default, by name. If the default changes
// meanwhile, perhaps to a weaker one, nothing runs in that one.
func TestNamesDefaultProtection(t *testing.T) {
	f := &facts{Info: system.Info{DefaultRuntime: "runsc", Architecture: "x86_64"}}
	r := &engine{opts: Options{Installation: "test"}}
	p, err := r.plan(runtime.Spec{ID: "box", Limits: belljar.DefaultLimits()}, f, image{id: "sha256:1"}, "agent")
	if err != nil {
		t.Fatal(err)
	}
	if p.host.Runtime != "runsc" {
		t.Fatalf("asked for OCI runtime %q", p.host.Runtime)
	}
	v := &verdict{}
	host := *p.host
	host.Runtime = "runc"
	v.namespaces(p.host, &host)
	if !slices.ContainsFunc(v.missing, func(s string) bool { return strings.Contains(s, "oci runtime") }) {
		t.Errorf("another one goes unnoticed: %q", v.missing)
	}
}

// An engine that has become weaker since it was chosen makes no sandbox.
func TestWeakerThanChosen(t *testing.T) {
	r := &engine{opts: Options{Installation: "test"}}
	spec := runtime.Spec{
		ID: "box", Limits: belljar.DefaultLimits(), Workspace: runtime.Workspace{Bytes: 1 << 20, Inodes: 100}, Isolation: runtime.IsolationUserKernel,
	}
	strong, weak := able(), able()
	strong.DefaultRuntime = "runsc"
	if err := r.check(spec, strong); err != nil {
		t.Error(err)
	}
	var step *runtime.StepError
	if err := r.check(spec, weak); !errors.As(err, &step) || step.Step != stepEngine || step.Hint == "" {
		t.Errorf("with runc in place of runsc: %v", err)
	}
	spec.Isolation = runtime.IsolationNamespace
	for name, f := range map[string]*facts{"runsc": strong, "runc": weak} {
		if err := r.check(spec, f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
