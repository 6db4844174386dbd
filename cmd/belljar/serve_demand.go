package main

import (
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service"
)

// demanded names the protections that every sandbox of a server has: all but those that its operator lets go.
func demanded(cfg *config.Config) []string {
	return slices.DeleteFunc(service.AllProtections(), func(name string) bool { return slices.Contains(cfg.AllowWeak, name) })
}

// checkHost refuses a host that cannot enforce what is demanded: a server on it would start, and then refuse every run.
// One that executes nothing needs no protection.
func checkHost(cfg *config.Config, caps runtime.Capabilities) error {
	known := append(service.AllProtections(), runtime.ProtectLandlock)
	for _, name := range cfg.AllowWeak {
		if !slices.Contains(known, name) {
			return mistake("they are "+strings.Join(known, ", "), "allow_weak names no protection: %.40q", name)
		}
	}
	if !cfg.EnableExecution {
		return nil
	}
	missing := slices.DeleteFunc(demanded(cfg), func(name string) bool { return caps.Protection(name).Enforced })
	if len(missing) == 0 {
		return nil
	}
	names := strings.Join(missing, ", ")
	return &belljar.Error{
		Code: belljar.CodeRuntimeUnavailable, Message: "not enforced on this host: " + names,
		Details: map[string]any{"protections": missing},
		Hint: "belljar doctor says how to mend it; --set allow_weak=" +
			strings.Join(append(slices.Clone(cfg.AllowWeak), missing...), ",") + " serves without",
	}
}
