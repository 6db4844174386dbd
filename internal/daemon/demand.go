package daemon

import (
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// requiredProtections returns the protections that every sandbox of a server must have: all except those that its operator waives.
func requiredProtections(cfg *config.Config, all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(cfg.AllowWeak, name) })
}

// notEnforced returns the protections that a host cannot enforce.
func notEnforced(caps runtime.Capabilities) []string {
	return slices.DeleteFunc(service.AllProtections(), func(name string) bool { return caps.Protection(name).Enforced })
}

// checkHost refuses a host that cannot enforce the required protections: a server on it would start and then refuse every run. A
// server that executes nothing needs no protection.
func checkHost(cfg *config.Config, required []string, caps runtime.Capabilities) error {
	known := append(service.AllProtections(), runtime.ProtectLandlock, config.WeakWorkspace)
	for _, name := range cfg.AllowWeak {
		if !slices.Contains(known, name) {
			return mistake("they are "+strings.Join(known, ", "), "allow_weak names no protection: %.40q", name)
		}
	}
	if !cfg.EnableExecution {
		return nil
	}
	missing := slices.DeleteFunc(slices.Clone(required), func(name string) bool { return caps.Protection(name).Enforced })
	if len(missing) == 0 {
		return nil
	}
	names := strings.Join(missing, ", ")
	return &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: "not enforced on this host: " + names,
		Details: map[string]any{"protections": missing},
		Hint: "run \"" + doctor(cfg) + "\" to see how to fix this, or start without them: --set allow_weak=" +
			strings.Join(append(slices.Clone(cfg.AllowWeak), missing...), ","),
	}
}

// doctor returns the command that examines this host with the server's settings.
func doctor(cfg *config.Config) string {
	if file := cfg.File(); file != "" {
		return "belljar doctor --config " + file
	}
	return "belljar doctor"
}
