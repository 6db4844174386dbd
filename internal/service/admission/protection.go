package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/placement"
)

// AllProtections returns the protections that a server requires of every sandbox: it refuses a run if one of them cannot be enforced.
func AllProtections() []string {
	return []string{
		runtime.ProtectFilesystem, runtime.ProtectNetwork, runtime.ProtectSeccomp, runtime.ProtectIdentity,
		runtime.ProtectWallTime, runtime.ProtectPids, runtime.ProtectMemory, runtime.ProtectCPU, runtime.ProtectDisk,
	}
}

// CoreProtections returns the protections that the command line requires. Without the others, a run gets a warning.
func CoreProtections() []string {
	return []string{
		runtime.ProtectFilesystem, runtime.ProtectNetwork, runtime.ProtectSeccomp, runtime.ProtectPids,
		runtime.ProtectWallTime,
	}
}

// waive removes the protections in weak from require, if the caller is permitted and they exist.
func waive(caller belljar.Caller, require, weak []string) ([]string, error) {
	known := append(AllProtections(), runtime.ProtectLandlock)
	for _, name := range weak {
		if !slices.Contains(known, name) {
			return nil, &belljar.Error{
				Code: belljar.CodeInvalidRequest, Message: "allow_weak names no protection: " + name,
				Details: map[string]any{"field": "allow_weak", "provided": name, "supported": known},
				Hint:    "one of: " + strings.Join(known, ", "),
			}
		}
	}
	if len(weak) > 0 && !caller.Admin() {
		return nil, &belljar.Error{
			Code: belljar.CodePolicyDenied, Message: "allow_weak is for operators only",
			Details: map[string]any{"field": "allow_weak", "rule": "operator"},
		}
	}
	return without(require, weak), nil
}

func without(list, drop []string) []string {
	var rest []string
	for _, name := range list {
		if !slices.Contains(drop, name) {
			rest = append(rest, name)
		}
	}
	return rest
}

// limitFields are the fields of a request that set a limit, by the protection that enforces it. The workspace is missing:
// on every runtime it is a file system with a fixed size.
var limitFields = []struct {
	protection, field string
	asked             func(Request) bool
}{
	{runtime.ProtectMemory, "resources.memory_mb", func(r Request) bool { return r.Resources.MemoryMB != 0 }},
	{runtime.ProtectMemory, "build_memory_mb", func(r Request) bool { return r.BuildMemoryMB != 0 }},
	{runtime.ProtectCPU, "resources.cpu", func(r Request) bool { return r.Resources.CPU != 0 }},
	{runtime.ProtectPids, "resources.pids", func(r Request) bool { return r.Resources.Pids != 0 }},
}

// protections returns the protections that enforce the limits of a request. Without them the request is refused, even if
// the server's policy waives them: only its own allow_weak waives them.
func (a Request) protections() (names []string) {
	for _, l := range limitFields {
		if l.asked(a) {
			names = append(names, l.protection)
		}
	}
	return names
}

// notLimited refuses a limit of the request that the runtime cannot enforce on this host; nil for other protections.
func notLimited(caller belljar.Caller, p *placement.Placement, request Request, got runtime.Protection) error {
	for _, l := range limitFields {
		if l.protection != got.Name || !l.asked(request) {
			continue
		}
		message := fmt.Sprintf("%s cannot be enforced here: runtime %s has no way to limit %s on this host", l.field, p.Host.Name(), got.Name)
		if got.By != "" {
			message = fmt.Sprintf("%s cannot be enforced here: runtime %s limits %s only by %s", l.field, p.Host.Name(), got.Name, got.By)
		}
		hint := "allow_weak " + got.Name + " (--allow-weak " + got.Name + ") runs without the limit"
		if !caller.Admin() {
			hint = "an operator can run without the limit: allow_weak " + got.Name + " (--allow-weak " + got.Name + ")"
		}
		if got.Hint != "" {
			hint = got.Hint + "; or " + hint
		}
		return &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: message, Hint: hint,
			Details: map[string]any{"field": l.field, "runtime": p.Host.Name(), "available": true, "protection": got.Name, "suggested": []string{}},
		}
	}
	return nil
}

// enforceable refuses a plan with a protection that the runtime cannot enforce on this host, before anything is built.
func enforceable(caller belljar.Caller, p *placement.Placement, request Request) error {
	names := p.Require
	if p.Limits.CPUTimeSec > 0 {
		names = append(slices.Clone(names), runtime.ProtectCPUTime)
	}
	for _, name := range names {
		if got := p.Caps.Protection(name); !got.Enforced {
			if err := notLimited(caller, p, request, got); err != nil {
				return err
			}
			hint := got.Hint
			if hint == "" {
				hint = "an operator can do without it: allow_weak (--allow-weak " + name + ")"
			}
			return &belljar.Error{
				Code:    belljar.CodeRuntimeUnavailable,
				Message: fmt.Sprintf("runtime %s cannot enforce protection %s on this host", p.Host.Name(), name),
				Details: map[string]any{"runtime": p.Host.Name(), "available": true, "protection": name, "suggested": []string{}},
				Hint:    hint,
			}
		}
	}
	return nil
}
