package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/runtime"
)

// unit is a runtime of this binary with its housekeeping. What is nil there is not.
type unit struct {
	runtime.Runtime
	close func() error
	// sweep takes down what killed processes of this installation have left, others what dead installations have, and
	// untraced ends sandboxes whose files somebody has removed.
	sweep, others, untraced func(ctx context.Context) (int, error)
}

// works reports whether this host can do it: where it cannot, there is nothing to be taken down, or nobody to ask.
func (u unit) works(ctx context.Context) bool {
	caps, err := u.Probe(ctx)
	return err != nil || caps.Available
}

// opening is what a runtime is opened with.
type opening struct {
	installation string         // whose the sandboxes are; "" for those of all commands
	cfg          *config.Config // what the operator says about runtimes
	log          *slog.Logger   // nil is silent
}

// nodeMemory is the bound on the memory of all sandboxes, in bytes; 0 is the usual one.
func (o opening) nodeMemory() int64 { return int64(o.cfg.NodeMemoryMB) << 20 }

// weak reports whether the operator does without a protection where it cannot be had.
func (o opening) weak(protection string) bool { return slices.Contains(o.cfg.AllowWeak, protection) }

// defaultRuntime is the one of requests that name none.
func defaultRuntime(cfg *config.Config) string {
	if _, set := cfg.Set("SANDBOX_DEFAULT_RUNTIME"); set {
		return cfg.DefaultRuntime
	}
	return usualRuntime
}

// servedRuntimes are those that requests may get, the default first.
func servedRuntimes(cfg *config.Config) []string {
	names := []string{defaultRuntime(cfg)}
	for _, name := range cfg.Runtimes {
		if name != names[0] && slices.Contains(runtimeNames(), name) {
			names = append(names, name)
		}
	}
	return names
}

// opener opens a runtime. One that does not work on this host is opened all the same, and says so when it is probed.
type opener struct {
	name string
	open func(h *Host, o opening) (unit, error)
}

// runtimeNames are the runtimes of this binary.
func runtimeNames() []string {
	var names []string
	for _, o := range openers() {
		names = append(names, o.name)
	}
	return names
}

// openUnits opens runtimes by their names, in that order.
func openUnits(h *Host, names []string, o opening) (units []unit, err error) {
	defer func() {
		if err != nil {
			for _, u := range slices.Backward(units) {
				_ = u.close()
			}
		}
	}()
	known := openers()
	for _, name := range names {
		i := slices.IndexFunc(known, func(o opener) bool { return o.name == name })
		if i < 0 {
			return units, noRuntime(name)
		}
		u, err := known[i].open(h, o)
		if err != nil {
			return units, unopened(name, err)
		}
		units = append(units, u)
	}
	return units, nil
}

// unopened says why a runtime cannot be opened, with what to do about it.
func unopened(name string, err error) error {
	err = fmt.Errorf("runtime %s: %w", name, err)
	if step := (*runtime.StepError)(nil); errors.As(err, &step) && step.Hint != "" {
		return &belljar.Error{Code: belljar.CodeInternal, Message: err.Error(), Hint: step.Hint}
	}
	return err
}

// noRuntime refuses a runtime that this binary does not have.
func noRuntime(name string) error {
	e := &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: fmt.Sprintf("no runtime is called %q", name)}
	if known := runtimeNames(); len(known) > 0 {
		e.Hint = "one of: " + strings.Join(known, " ")
	}
	return e
}

// agentFor opens the agent for an architecture by Go's name.
func (h *Host) agentFor(arch string) (io.ReadCloser, error) { return h.Options.Agent(arch) }
