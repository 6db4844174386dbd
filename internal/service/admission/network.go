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

// Egress is the server's egress policy in a parsed form.
type Egress struct {
	allow   []string // for every user without rules of their own
	rules   egress.Rules
	users   map[string]egress.Rules
	own     map[string][]string // each user's rules in their source form
	levels  map[belljar.TrustLevel]egress.Rules
	ports   []uint16
	private bool
	presets []string // the enabled presets
	mirrors []string // of the enabled presets, preset=URL
	usual   string   // the network policy of requests that set none
	trust   belljar.TrustLevel
}

// DefaultEgressPorts returns the ports that sandboxes may connect to by default.
func DefaultEgressPorts() []uint16 { return []uint16{80, 443} }

// Egress parses the egress rules of a policy. The error names the setting.
func (p Policy) Egress() (*Egress, error) {
	e := &Egress{
		allow: p.EgressAllow, users: map[string]egress.Rules{}, own: map[string][]string{}, levels: map[belljar.TrustLevel]egress.Rules{},
		ports: p.EgressPorts, private: p.EgressPrivate, presets: p.EgressPresets, mirrors: p.PackageMirrors, usual: p.NetworkDefault, trust: p.DefaultTrust,
	}
	if len(e.ports) == 0 {
		e.ports = DefaultEgressPorts()
	}
	var err error
	if e.rules, err = egress.ParseList("SANDBOX_EGRESS_ALLOW", p.EgressAllow); err != nil {
		return nil, err
	}
	for _, pair := range p.EgressAllowUsers {
		if user, rule := cutUser(pair); user != "" {
			e.own[user] = append(e.own[user], rule)
		}
	}
	for user, list := range e.own {
		if e.users[user], err = egress.ParseList("SANDBOX_EGRESS_ALLOW_USERS of "+user, list); err != nil {
			return nil, err
		}
	}
	levels := map[belljar.TrustLevel][]string{}
	for _, pair := range p.EgressAllowTrust {
		level, rule, _ := strings.Cut(pair, "=")
		levels[belljar.TrustLevel(level)] = append(levels[belljar.TrustLevel(level)], rule)
	}
	for level, list := range levels {
		if e.levels[level], err = egress.ParseList("SANDBOX_EGRESS_ALLOW_TRUST of "+string(level), list); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// cutUser cuts a rule of EgressAllowUsers: a user's name may contain "=", a rule cannot.
func cutUser(pair string) (user, rule string) {
	i := strings.LastIndexByte(pair, '=')
	return pair[:max(i, 0)], pair[i+1:]
}

// Nothing returns the policy of a sandbox without destinations.
func (e *Egress) Nothing() egress.Policy { return egress.Policy{Ports: e.ports} }

// Wanted reports whether a request gets a network.
func (e *Egress) Wanted(spec belljar.NetworkSpec) bool {
	return spec.NetworkPolicy == belljar.NetworkAllowlist || spec.NetworkPolicy == "" && e.usual == belljar.NetworkAllowlist
}

// Network returns the network of a request in force, and the policy for its sandbox; nil without a network. As with isolation, only
// operators may go beyond the default trust level.
func (e *Egress) Network(caller belljar.Caller, trust belljar.TrustLevel, spec belljar.NetworkSpec) (belljar.NetworkSpec, *egress.Policy, error) {
	if err := spec.Validate(); err != nil {
		return spec, nil, err
	}
	if !e.Wanted(spec) {
		return belljar.NetworkSpec{NetworkPolicy: belljar.NetworkDenyAll}, nil, nil
	}
	for i, name := range spec.Egress.Presets {
		if err := e.Preset(name); err != nil {
			err.Details["field"] = fmt.Sprintf("egress.presets[%d]", i)
			return spec, nil, err
		}
	}
	p, allow := e.server(caller, trust), e.allow
	if own, ok := e.own[caller.ID]; ok {
		allow = own
	}
	if n := len(spec.Egress.Presets); p.Server.Empty() && (n == 0 || spec.Egress.Len() > n) {
		return spec, nil, &belljar.Error{
			Code: belljar.CodePolicyDenied, Message: "this server lets sandboxes reach nothing, and network_policy is " + belljar.NetworkAllowlist,
			Details: map[string]any{"field": "network_policy", "provided": belljar.NetworkAllowlist, "rule": "SANDBOX_EGRESS_ALLOW"},
			Hint:    "an operator lists in SANDBOX_EGRESS_ALLOW what sandboxes may reach: hosts, networks, addresses, or * for every public host",
		}
	}
	if spec.NetworkPolicy == "" {
		p.Run = p.Server
		return belljar.NetworkSpec{NetworkPolicy: belljar.NetworkAllowlist, Egress: belljar.ParseEgress(allow)}, p, nil
	}
	var err error
	p.Run, err = egress.ParseRules(spec.Egress)
	return spec, p, err
}

// Recovered returns the policy for a sandbox of a previous process: the network and presets admitted then, within the current rules. If
// these permit nothing, it reaches nothing.
func (e *Egress) Recovered(caller belljar.Caller, trust belljar.TrustLevel, spec belljar.NetworkSpec, presets []belljar.NetworkPreset) (*egress.Policy, error) {
	_, p, err := e.Network(caller, trust, spec)
	if err == nil && p != nil {
		p, err = e.WithPresets(p, presets)
	}
	if err != nil {
		nothing := e.Nothing() // keeps the ports, on which the agent listens: the session may get other rules later
		return &nothing, err
	}
	return p, nil
}

// network decides about the network of a placement.
func (r *Rules) network(caller belljar.Caller, p *placement.Placement, ask Request) (err error) {
	_, p.Egress, err = r.Egress.Network(caller, ask.Trust, ask.Network)
	if err == nil && p.Egress != nil {
		err = Relayed(p)
	}
	return err
}

// Relayed refuses a network for a sandbox whose runtime has no relay.
func Relayed(p *placement.Placement) error {
	if p.Caps.Relay {
		return nil
	}
	return &belljar.Error{
		Code:    belljar.CodeRuntimeUnavailable,
		Message: fmt.Sprintf("runtime %s does not support network_policy %s", p.Host.Name(), belljar.NetworkAllowlist),
		Details: map[string]any{"field": "network_policy", "runtime": p.Host.Name(), "available": true, "suggested": []string{}},
		Hint:    "name a runtime whose egress_allowlist_supported is true, or set network_policy to " + belljar.NetworkDenyAll,
	}
}

// noRelay is the reason why a runtime is not suitable for a request with a network.
func noRelay() runtime.Reason {
	return runtime.Reason{
		Code: "egress_unsupported", Step: "network", Detail: "it does not support network_policy " + belljar.NetworkAllowlist,
		Hint: "set network_policy to " + belljar.NetworkDenyAll,
	}
}

// mostUncovered is how many rules the warnings list.
const mostUncovered = 5

// Uncovered returns warnings about requested rules that the server's rules fully deny. The request is admitted with the others.
func Uncovered(p *egress.Policy) (warnings []string) {
	if p == nil {
		return nil
	}
	rules := p.Uncovered()
	for i, rule := range rules {
		if i == mostUncovered {
			return append(warnings, fmt.Sprintf("network: %d more rules of the request allow nothing, either", len(rules)-i))
		}
		warnings = append(warnings, fmt.Sprintf("network: the rule %s allows nothing: the server's %s does not list it", rule, p.Lists()))
	}
	return warnings
}

// Denied returns a run's warning about a denied host, with how to permit it. more is the flag or command that adds a rule.
func Denied(p *egress.Policy, h belljar.EgressHost, more string) string {
	message := fmt.Sprintf("network: %s is not allowed (%s)", h.Host, h.Reason)
	switch egress.Reason(h.Reason) {
	case egress.NoMatch:
		rule := belljar.ParseEgress([]string{h.Host})
		if _, err := egress.ParseRules(rule); err != nil {
			return message
		}
		if p != nil && slices.ContainsFunc(p.Ports, func(port uint16) bool {
			own := egress.Policy{Run: p.Run, Server: egress.Any(), Ports: p.Ports, Private: true}
			_, reason := own.Decide(h.Host, port)
			return reason == ""
		}) {
			return message + ": the server's " + p.Lists() + " does not list it"
		}
		return message + ": add " + more + " " + h.Host
	case egress.PortDenied:
		return message + ": the server's SANDBOX_EGRESS_PORTS does not list the port"
	case egress.PrivateAddress:
		return message + ": its address is not public, and no rule allows that address"
	case egress.DNSFailed:
		return fmt.Sprintf("network: %s cannot be found (%s): its name has no address, or the DNS server did not answer", h.Host, h.Reason)
	case egress.CertificateUnknown:
		return message + ": it has a brokered secret, and a certificate of an authority that the server does not trust; SANDBOX_EGRESS_CA_FILE adds one"
	case egress.CertificateExpired:
		return message + ": it has a brokered secret, and its certificate has expired or is not valid yet"
	case egress.CertificateName:
		return message + ": it has a brokered secret, and its certificate is for another name"
	case egress.CertificateInvalid:
		return message + ": it has a brokered secret, and its certificate is not valid"
	case egress.Brokered:
		return message + ": it has a brokered secret, and takes HTTP/1.1 over TLS on port 443 from programs that trust the authorities in $SSL_CERT_FILE"
	}
	return message
}
