package admission

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/placement"
)

// claimed is a runtime with capabilities that the test sets, and no functions.
type claimed struct {
	runtime.Runtime
	name string
	caps runtime.Capabilities
	err  error
}

func (c claimed) Name() string { return c.name }

func (c claimed) Probe(context.Context) (runtime.Capabilities, error) { return c.caps, c.err }

// drawRuntimes draws a host with some runtimes.
func drawRuntimes(t *rapid.T) (list []claimed) {
	for i := range rapid.IntRange(1, 5).Draw(t, "runtimes") {
		c := claimed{name: fmt.Sprintf("r%d", i)}
		c.caps = runtime.Capabilities{
			Available: rapid.Bool().Draw(t, "available"),
			Isolation: rapid.SampledFrom([]runtime.Isolation{
				runtime.IsolationNone, runtime.IsolationNamespace, runtime.IsolationUserKernel, runtime.IsolationMicroVM, runtime.IsolationRemote,
			}).Draw(t, "class"),
			Start:     time.Duration(rapid.IntRange(0, 3).Draw(t, "start")) * 100 * time.Millisecond,
			HostImage: rapid.Bool().Draw(t, "host image"), Unpacked: rapid.Bool().Draw(t, "unpacked"),
		}
		for _, name := range []string{runtime.ProtectMemory, runtime.ProtectPids} {
			c.caps.Protections = append(c.caps.Protections, runtime.Protection{Name: name, Enforced: rapid.Bool().Draw(t, name)})
		}
		if !c.caps.Available && rapid.Bool().Draw(t, "class unknown") {
			c.caps.Isolation = ""
		}
		if !c.caps.Available && rapid.Bool().Draw(t, "reason") {
			c.caps.Reasons = []runtime.Reason{{Code: "host_prerequisite_missing", Detail: "this is missing", Hint: "get it"}}
		}
		if rapid.IntRange(0, 9).Draw(t, "broken") == 0 {
			c.err = fmt.Errorf("no answer")
		}
		list = append(list, c)
	}
	return list
}

// strength orders the classes. The strength of a remote class is unknown.
func strength(class runtime.Isolation) int {
	return slices.Index([]runtime.Isolation{runtime.IsolationNone, runtime.IsolationNamespace, runtime.IsolationUserKernel, runtime.IsolationMicroVM}, class)
}

// For any runtimes, policy and request: the chosen runtime is not weaker than any of them requires, it is available, and
// no suitable one is faster. A refusal has the reason for every runtime.
func TestChoiceHolds(t *testing.T) {
	classes := rapid.SampledFrom([]runtime.Isolation{runtime.IsolationNamespace, runtime.IsolationUserKernel, runtime.IsolationMicroVM})
	levels := rapid.SampledFrom(append(belljar.TrustLevels(), ""))
	rapid.Check(t, func(t *rapid.T) {
		there := drawRuntimes(t)
		s := &Rules{Log: slog.New(slog.DiscardHandler)}
		for _, c := range there {
			h := placement.NewHost(c)
			if rapid.Bool().Draw(t, "probed before") {
				h.Capabilities(t.Context())
			}
			s.Hosts = append(s.Hosts, h)
		}
		s.Policy.DefaultTrust = levels.Draw(t, "default level")
		s.Policy.TrustLevels = rapid.MapOf(rapid.SampledFrom(belljar.TrustLevels()), classes).Draw(t, "levels")
		caller := belljar.Caller{ID: "u", Role: rapid.SampledFrom([]belljar.Role{belljar.RoleUser, belljar.RoleAdmin}).Draw(t, "role")}
		w := requirements{
			trust: levels.Draw(t, "level"), image: rapid.SampledFrom([]string{runtime.HostRef, "python"}).Draw(t, "image"),
			require: rapid.SliceOfDistinct(rapid.SampledFrom([]string{runtime.ProtectMemory, runtime.ProtectPids}), rapid.ID[string]).Draw(t, "require"),
		}
		if rapid.Bool().Draw(t, "a class") {
			w.isolation = classes.Draw(t, "asked class")
		}
		if rapid.Bool().Draw(t, "a runtime") {
			w.runtime = rapid.SampledFrom([]string{"r0", "r1", "r2", "r3", "r4", "vm"}).Draw(t, "asked runtime")
		}

		// At least the requirement of every party.
		least := strength(w.isolation)
		if w.trust != "" {
			least = max(least, strength(s.Policy.WeakestIsolation(w.trust)))
		}
		if usual := s.Policy.DefaultTrust; usual != "" && (w.trust == "" || !caller.Admin()) {
			least = max(least, strength(s.Policy.WeakestIsolation(usual)))
		}
		strong := func(c claimed) bool { return least < 0 || strength(c.caps.Isolation) >= least }
		works := func(c claimed) bool { return c.err == nil && c.caps.Available }
		fits := func(c claimed) bool {
			sees := c.caps.Unpacked
			if w.image == runtime.HostRef {
				sees = c.caps.HostImage
			}
			return works(c) && strong(c) && sees && !slices.ContainsFunc(w.require, func(name string) bool { return !c.caps.Protection(name).Enforced })
		}

		got, err := s.choose(t.Context(), caller, w)
		if err == nil {
			c := there[slices.IndexFunc(there, func(c claimed) bool { return c.name == got.Host.Name() })]
			if !works(c) || !strong(c) || got.Why == "" || got.Caps.Isolation != c.caps.Isolation {
				t.Fatalf("%+v was chosen because %q", c, got.Why)
			}
			byDefault := c.name == "r0" && w.isolation == "" && w.trust == ""
			switch {
			case w.runtime != "" && c.name != w.runtime:
				t.Fatalf("%s was asked for and %s chosen", w.runtime, c.name)
			case w.runtime != "" || byDefault: // the image and the protections are checked elsewhere
			case !fits(c):
				t.Fatalf("%+v was chosen, which will not do for %+v", c, w)
			default:
				for _, other := range there {
					if fits(other) && other.caps.Start < c.caps.Start {
						t.Fatalf("%+v was chosen, although %+v is faster", c, other)
					}
				}
			}
			return
		}
		e := err.(*belljar.Error)
		switch {
		case w.runtime != "":
			i := slices.IndexFunc(there, func(c claimed) bool { return c.name == w.runtime })
			if i >= 0 && works(there[i]) && strong(there[i]) {
				t.Fatalf("%+v was refused: %v", there[i], err)
			}
		case e.Code == belljar.CodeInternal: // the default could not be probed
			if there[0].err == nil || w.isolation != "" || w.trust != "" {
				t.Fatal(err)
			}
		case w.isolation == "" && w.trust == "" && there[0].err == nil && !there[0].caps.Available:
			// The default is not available, and has no substitute.
		default:
			if slices.ContainsFunc(there, fits) {
				t.Fatalf("%+v was refused although one will do: %v", w, err)
			}
			reasons := e.Details["reasons"].(map[string]any)
			for _, c := range there {
				list, ok := reasons[c.name].([]runtime.Reason)
				if !ok || len(list) == 0 || list[0].Detail == "" || list[0].Code == "" {
					t.Fatalf("no reason for %s: %+v", c.name, e.Details)
				}
				if weak := list[0].Code == "isolation_too_weak"; weak && (strong(c) || c.caps.Isolation == "") {
					t.Fatalf("%+v is called too weak", c)
				}
			}
		}
		if e.Message == "" || e.Hint == "" && e.Code != belljar.CodeInternal {
			t.Fatalf("%+v", e)
		}
		if !slices.Contains([]belljar.Code{belljar.CodeRuntimeUnavailable, belljar.CodePolicyDenied, belljar.CodeInvalidRequest, belljar.CodeInternal}, e.Code) {
			t.Fatalf("%+v", e)
		}
	})
}
