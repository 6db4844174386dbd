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
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/sprites"
)

// unit is a runtime of this binary with its cleanup. A nil function means that the runtime does not support it.
type unit struct {
	runtime.Runtime
	close func() error
	// sweep removes the remains of this installation's killed processes, others those of dead installations, and fileless ends
	// sandboxes whose files were removed.
	sweep, others, fileless func(ctx context.Context) (int, error)
	prepare                 func() // starts, in the background, the work that the first sandbox would wait for
}

// works reports whether the runtime is available. An unavailable one has nothing to clean up, or does not respond.
func (u unit) works(ctx context.Context) bool {
	caps, err := u.Probe(ctx)
	return err != nil || caps.Available
}

// openOptions holds the options for opening a runtime.
type openOptions struct {
	installation string         // owner of the sandboxes; "" for the shared one of all commands
	cfg          *config.Config // the operator's settings
	log          *slog.Logger   // nil disables logging
	state        string         // folder for the state of runtimes; "" for commands, whose sandboxes end with them
	observe      func(event.Event)
}

// nodeMemory is the limit on the memory of all sandboxes, in bytes; 0 is the default.
func (o openOptions) nodeMemory() int64 { return int64(o.cfg.NodeMemoryMB) << 20 }

// weak reports whether the operator accepts sandboxes without a protection.
func (o openOptions) weak(protection string) bool {
	return slices.Contains(o.cfg.AllowWeak, protection)
}

// defaultRuntime is the runtime of requests that name none.
func defaultRuntime(cfg *config.Config) string {
	if _, set := cfg.Set("SANDBOX_DEFAULT_RUNTIME"); set {
		return cfg.DefaultRuntime
	}
	return platformRuntime
}

// servedRuntimes returns the runtimes that requests may use, first in front of the others. It fails if first is not among
// them.
func servedRuntimes(cfg *config.Config, first string) ([]string, error) {
	known, names := runtimeNames(cfg), slices.Clone(cfg.Runtimes)
	if !slices.Contains(known, first) {
		return nil, noRuntime(cfg, first)
	}
	if cfg.SpritesBaseURL != "" {
		names = append(names, sprites.Name)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(known, name) })
	i := slices.Index(names, first)
	if i < 0 {
		return nil, &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "runtime " + first + " is not among SANDBOX_RUNTIMES",
			Hint: "one of: " + strings.Join(names, " ") + "; SANDBOX_DEFAULT_RUNTIME is for requests that name none",
		}
	}
	return append([]string{first}, slices.Delete(names, i, i+1)...), nil
}

// opener opens a runtime. It also opens one that is unavailable on this host. The probe then returns the reason.
type opener struct {
	name string
	open func(h *Host, o openOptions) (unit, error)
}

// runtimeNames returns the names of this binary's runtimes, and of a configured one on another machine.
func runtimeNames(cfg *config.Config) []string {
	var names []string
	for _, o := range everyOpener(cfg) {
		names = append(names, o.name)
	}
	return names
}

func everyOpener(cfg *config.Config) []opener {
	list := openers()
	if cfg.SpritesBaseURL != "" {
		list = append(list, opener{sprites.Name, openSprites})
	}
	return list
}

// openUnits opens runtimes by their names, in that order.
func openUnits(h *Host, names []string, o openOptions) (units []unit, err error) {
	defer func() {
		if err != nil {
			for _, u := range slices.Backward(units) {
				_ = u.close()
			}
		}
	}()
	known := everyOpener(o.cfg)
	for _, name := range names {
		i := slices.IndexFunc(known, func(o opener) bool { return o.name == name })
		if i < 0 {
			return units, noRuntime(o.cfg, name)
		}
		u, err := known[i].open(h, o)
		if err != nil {
			return units, openError(name, err)
		}
		units = append(units, u)
	}
	return units, nil
}

// openError returns the error for a runtime that cannot be opened, with a hint.
func openError(name string, err error) error {
	err = fmt.Errorf("runtime %s: %w", name, err)
	if step := (*runtime.StepError)(nil); errors.As(err, &step) && step.Hint != "" {
		return &belljar.Error{Code: belljar.CodeInternal, Message: err.Error(), Hint: step.Hint}
	}
	return err
}

// noRuntime returns the error for a runtime that this binary does not have.
func noRuntime(cfg *config.Config, name string) error {
	e := &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: fmt.Sprintf("no runtime is called %q", name)}
	if known := runtimeNames(cfg); len(known) > 0 {
		e.Hint = "one of: " + strings.Join(known, " ")
	}
	return e
}

// agentFor opens the agent for an architecture, a GOARCH value.
func (h *Host) agentFor(arch string) (io.ReadCloser, error) { return h.Options.Agent(arch) }
