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

// Presets are the kinds of packages that an operator can let requests install.
func Presets() []string { return []string{"pip", "npm"} }

// packages decides whether the packages of a request may be installed for the sandbox of a placement.
func (r *Rules) packages(p *placement.Placement, ask Request) error {
	if ask.Packages.IsZero() {
		return nil
	}
	if why := noPackages(p.Caps); why != nil {
		return &belljar.Error{
			Code: belljar.CodeRuntimeUnavailable, Message: "packages cannot be used with runtime " + p.Host.Name() + ": " + why.Detail, Hint: why.Hint,
			Details: map[string]any{"field": "packages", "runtime": p.Host.Name(), "available": true, "suggested": []string{}},
		}
	}
	for _, preset := range Presets() {
		if len(ask.packagesOf(preset)) > 0 && !slices.Contains(r.Policy.EgressPresets, preset) {
			return &belljar.Error{
				Code: belljar.CodePolicyDenied, Message: "this server does not install packages of " + preset,
				Details: map[string]any{"field": "packages." + preset, "rule": "SANDBOX_EGRESS_PRESETS"},
				Hint:    "an operator adds " + preset + " to SANDBOX_EGRESS_PRESETS",
			}
		}
	}
	p.InstallMB = r.InstallMB
	return nil
}

func (a Request) packagesOf(preset string) []string {
	if preset == "pip" {
		return a.Packages.Pip
	}
	return a.Packages.Npm
}

// noPackages is why a runtime will not do for a request with packages; nil if it will.
func noPackages(caps runtime.Capabilities) *runtime.Reason {
	switch {
	case !caps.Layers:
		return &runtime.Reason{Code: "packages_unsupported", Step: "mount", Detail: "it cannot show them to a sandbox", Hint: "name another runtime"}
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

// Index is the policy for the hosts of an index of packages, which the operator has switched on, and the addresses that the
// operator or the request list, for indexes with a private one. The rules of trust levels hold.
func (e *Egress) Index(caller belljar.Caller, trust belljar.TrustLevel, hosts []string, asked belljar.Egress) (*egress.Policy, error) {
	p := e.server(caller, trust)
	mine := belljar.ParseEgress(e.allow)
	list := slices.Concat(mine.CIDRs, mine.IPs)
	listed, err := egress.ParseList("SANDBOX_EGRESS_ALLOW", list)
	if err != nil {
		return nil, err
	}
	list = append(list, hosts...)
	for _, rule := range slices.Concat(asked.CIDRs, asked.IPs) {
		own, err := egress.ParseList("egress", []string{rule})
		if err != nil {
			return nil, err
		}
		if p.Server.Within(own) && !listed.Within(own) {
			list = append(list, rule)
		}
	}
	rules, err := egress.ParseList("hosts of the index", list)
	if err != nil {
		return nil, &belljar.Error{
			Code: belljar.CodePolicyDenied, Message: fmt.Sprintf("the index names hosts that cannot be allowed: %s", strings.Join(hosts, ", ")), Err: err,
		}
	}
	p.Run, p.Server = rules, rules
	return p, nil
}

// server is what the server lets a caller reach, without the rules of a ask.
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
