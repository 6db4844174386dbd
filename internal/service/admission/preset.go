package admission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/placement"
)

// Presets returns the presets that an operator can enable. Some of them also permit the installation of packages.
func Presets() []string { return belljar.EgressPresets() }

// Preset returns the reason why requests cannot use a preset, as far as that is known without its image; nil if they can. The details have no field.
func (e *Egress) Preset(name string) *belljar.Error {
	switch {
	case !slices.Contains(e.presets, name):
		return &belljar.Error{
			Code: belljar.CodePolicyDenied, Message: "this server has the preset " + name + " switched off",
			Details: map[string]any{"rule": "SANDBOX_EGRESS_PRESETS"}, Hint: "an operator adds " + name + " to SANDBOX_EGRESS_PRESETS",
		}
	case name == "github" && !slices.ContainsFunc(e.mirrors, func(m string) bool { return strings.HasPrefix(m, "github=") }):
		return &belljar.Error{
			Code: belljar.CodePolicyDenied, Message: "preset github: its hosts are not known here",
			Details: map[string]any{"rule": "SANDBOX_PACKAGE_MIRRORS"}, Hint: "an operator lists them in SANDBOX_PACKAGE_MIRRORS: github=https://git.example.com",
		}
	}
	return nil
}

// presetMB is the memory of the sandbox that queries the configuration of an image's tools, with its files, in MiB: see [AskLimits].
const presetMB = 256 + askFilesMB

const askFilesMB = 64

// AskLimits returns the limits for the queries of tools, within the reservation of a request with presets.
func AskLimits(l belljar.Limits) belljar.Limits {
	l.MemoryMB, l.WorkspaceMB = presetMB-askFilesMB, min(l.WorkspaceMB, askFilesMB)
	l.Pids, l.NoFile = max(l.Pids, 128), max(l.NoFile, 1024)
	l.NProc = l.Pids
	return l
}

// packages decides whether the packages of a request may be installed for the sandbox of a placement.
func (r *Rules) packages(p *placement.Placement, ask Request) error {
	if len(ask.Network.Egress.Presets) > 0 {
		p.InstallMB = presetMB
	}
	if ask.Packages.IsZero() {
		return nil
	}
	if why := noPackages(p.Caps); why != nil {
		return &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "packages cannot be used with runtime " + p.Host.Name() + ": " + why.Detail, Hint: why.Hint,
			Details: map[string]any{"field": "packages", "runtime": p.Host.Name(), "available": true, "suggested": []string{}},
		}
	}
	for _, kind := range []struct {
		preset string
		list   []string
	}{{"pip", ask.Packages.Pip}, {"npm", ask.Packages.Npm}} {
		if len(kind.list) > 0 && !slices.Contains(r.Policy.EgressPresets, kind.preset) {
			return &belljar.Error{
				Code: belljar.CodePolicyDenied, Message: "this server does not install packages of " + kind.preset,
				Details: map[string]any{"field": "packages." + kind.preset, "rule": "SANDBOX_EGRESS_PRESETS"},
				Hint:    "an operator adds " + kind.preset + " to SANDBOX_EGRESS_PRESETS",
			}
		}
	}
	p.InstallMB = r.InstallMB
	return nil
}

// noPackages returns the reason why a runtime is not suitable for a request with packages; nil if it is.
func noPackages(caps runtime.Capabilities) *runtime.Reason {
	switch {
	case !caps.Layers:
		why := &runtime.Reason{Code: "packages_unsupported", Step: "mount", Detail: "it cannot show them to a sandbox", Hint: "name another runtime"}
		if caps.NoLayers.Detail != "" {
			why.Detail += ": " + caps.NoLayers.Detail
		}
		return why
	case !caps.Relay:
		return &runtime.Reason{Code: "packages_unsupported", Step: "network", Detail: "it does not support network_policy " + belljar.NetworkAllowlist, Hint: "name another runtime"}
	}
	return nil
}

// Covers reports whether the server lets a caller reach a host.
func (e *Egress) Covers(caller belljar.Caller, trust belljar.TrustLevel, host string, port uint16) bool {
	p := e.server(caller, trust)
	var err error
	if p.Run, err = egress.ParseRules(belljar.ParseEgress([]string{host})); err != nil {
		return false
	}
	_, reason := p.Decide(host, port)
	return reason == ""
}

// Index returns the policy for the hosts of a package index that the operator has enabled. It permits no other hosts, and of private
// addresses only those that the operator or the request list. The rules of trust levels apply.
func (e *Egress) Index(caller belljar.Caller, trust belljar.TrustLevel, hosts []string, asked belljar.Egress) (*egress.Policy, error) {
	p := e.server(caller, trust)
	list := e.addresses()
	listed, err := egress.ParseList("SANDBOX_EGRESS_ALLOW", list)
	if err != nil {
		return nil, err
	}
	for _, rule := range slices.Concat(asked.CIDRs, asked.IPs) {
		own, err := egress.ParseList("egress", []string{rule})
		if err != nil {
			return nil, err
		}
		if p.Server.Within(own) && !listed.Within(own) {
			list = append(list, rule)
		}
	}
	open, err := egress.ParseList("egress", list)
	if err != nil {
		return nil, err
	}
	p.Open = []egress.Rules{open}
	if p.Run, err = egress.ParseList("hosts of the index", hosts); err != nil {
		return nil, &belljar.Error{
			Code: belljar.CodePolicyDenied, Message: fmt.Sprintf("the index names hosts that cannot be allowed: %s", strings.Join(hosts, ", ")), Err: err,
		}
	}
	p.Server, p.Private = egress.Any(), p.Private && len(list) > 0
	if p.Private { // an index host that is itself an address permits no address besides these
		p.Server, err = egress.ParseList("egress", append(list, "*"))
	}
	return p, err
}

// addresses returns the addresses that the operator permits.
func (e *Egress) addresses() []string {
	mine := belljar.ParseEgress(e.allow)
	return slices.Concat(mine.CIDRs, mine.IPs)
}

// WithPresets returns a policy with the hosts of presets. They need no other rule of the server, because the operator has enabled them,
// but the rules of trust levels apply. Their addresses may be private if the operator lists them.
func (e *Egress) WithPresets(p *egress.Policy, presets []belljar.NetworkPreset) (*egress.Policy, error) {
	if len(presets) == 0 {
		return p, nil
	}
	more := *p
	more.OpenTo = []string{}
	for _, preset := range presets {
		text := "preset " + preset.Name
		var err error
		if more.Run, err = more.Run.With(text, preset.Hosts...); err == nil {
			more.Server, err = more.Server.With(text, preset.Hosts...)
		}
		if err != nil {
			return nil, &belljar.Error{
				Code: belljar.CodePolicyDenied, Message: fmt.Sprintf("preset %s: its host %v", preset.Name, err), Details: map[string]any{"field": "egress.presets"},
				Hint: "the index needs a name: an operator sets one in SANDBOX_PACKAGE_MIRRORS",
			}
		}
		for _, host := range preset.Hosts {
			more.OpenTo = append(more.OpenTo, strings.ToLower(host))
		}
	}
	open, err := egress.ParseList("SANDBOX_EGRESS_ALLOW", e.addresses())
	more.Open = []egress.Rules{open}
	return &more, err
}

// server returns the server's policy for a caller, without the rules of a request.
func (e *Egress) server(caller belljar.Caller, trust belljar.TrustLevel) *egress.Policy {
	p := &egress.Policy{Server: e.rules, Ports: slices.Clone(e.ports), Private: e.private}
	if own, ok := e.users[caller.ID]; ok {
		p.Server = own
	}
	for level, rules := range e.levels {
		if level == trust || level == e.trust && (trust == "" || !caller.Admin()) {
			p.Levels = append(p.Levels, rules)
		}
	}
	return p
}
