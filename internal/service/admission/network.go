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

// Egress is what sandboxes may reach at most, ready for decisions.
type Egress struct {
	allow   []string // of every user without rules of their own
	rules   egress.Rules
	users   map[string]egress.Rules
	own     map[string][]string // the users' rules as they are written
	levels  map[belljar.TrustLevel]egress.Rules
	ports   []uint16
	private bool
	presets []string // that are on
	mirrors []string // of them, preset=URL
	usual   string   // the network of requests that set none
	trust   belljar.TrustLevel
}

// DefaultEgressPorts are the ports that sandboxes may connect to unless the operator says otherwise.
func DefaultEgressPorts() []uint16 { return []uint16{80, 443} }

// Egress reads the rules of a policy. The error names the setting.
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
		if i := strings.LastIndexByte(pair, '='); i > 0 {
			e.own[pair[:i]] = append(e.own[pair[:i]], pair[i+1:])
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

// Nothing is the policy of a sandbox that may reach nothing.
func (e *Egress) Nothing() egress.Policy { return egress.Policy{Ports: e.ports} }

// Wanted reports whether a request gets a network.
func (e *Egress) Wanted(spec belljar.NetworkSpec) bool {
	return spec.NetworkPolicy == belljar.NetworkAllowlist || spec.NetworkPolicy == "" && e.usual == belljar.NetworkAllowlist
}

// Network returns the network of a request in force, and the policy that its sandbox is held to; nil if it may reach nothing. As
// with isolation, only operators get past the default trust level.
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

// Recovered is the policy of a sandbox of a former process: what was admitted then, and what its presets stood for, within the rules of
// now. Where these allow nothing any longer, it reaches nothing.
func (e *Egress) Recovered(caller belljar.Caller, trust belljar.TrustLevel, spec belljar.NetworkSpec, presets []belljar.NetworkPreset) (*egress.Policy, error) {
	_, p, err := e.Network(caller, trust, spec)
	if err == nil && p != nil {
		p, err = e.WithPresets(p, presets)
	}
	if err != nil {
		nothing := e.Nothing() // with the ports, on which the agent listens: the session may get other rules later
		return &nothing, err
	}
	return p, nil
}

// network decides what the sandbox of a placement may reach.
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

// noRelay is why a runtime will not do for a request with a network.
func noRelay() runtime.Reason {
	return runtime.Reason{
		Code: "egress_unsupported", Step: "network", Detail: "it does not support network_policy " + belljar.NetworkAllowlist,
		Hint: "set network_policy to " + belljar.NetworkDenyAll,
	}
}

// mostUncovered is how many rules warnings name.
const mostUncovered = 5

// Uncovered are warnings about requested rules that the server's rules do not allow at all. The request is granted with the others.
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

// Denied returns words for a run's warning about a host that was denied, with what would allow it. more is the flag or command
// that adds a rule.
func Denied(p *egress.Policy, h belljar.EgressHost, more string) string {
	said := fmt.Sprintf("network: %s is not allowed (%s)", h.Host, h.Reason)
	switch egress.Reason(h.Reason) {
	case egress.NoMatch:
		rule := belljar.ParseEgress([]string{h.Host})
		if _, err := egress.ParseRules(rule); err != nil {
			return said
		}
		if p != nil && slices.ContainsFunc(p.Ports, func(port uint16) bool {
			own := egress.Policy{Run: p.Run, Server: egress.Any(), Ports: p.Ports, Private: true}
			_, reason := own.Decide(h.Host, port)
			return reason == ""
		}) {
			return said + ": the server's " + p.Lists() + " does not list it"
		}
		return said + ": add " + more + " " + h.Host
	case egress.PortDenied:
		return said + ": the server's SANDBOX_EGRESS_PORTS does not list the port"
	case egress.PrivateAddress:
		return said + ": its address is not public, and no rule allows that address"
	case egress.DNSFailed:
		return fmt.Sprintf("network: %s cannot be found (%s): its name has no address, or the DNS server did not answer", h.Host, h.Reason)
	case egress.CertificateUnknown:
		return said + ": it has a brokered secret, and a certificate of an authority that the server does not trust; SANDBOX_EGRESS_CA_FILE adds one"
	case egress.CertificateExpired:
		return said + ": it has a brokered secret, and its certificate has expired or is not valid yet"
	case egress.CertificateName:
		return said + ": it has a brokered secret, and its certificate is for another name"
	case egress.CertificateInvalid:
		return said + ": it has a brokered secret, and its certificate is not valid"
	case egress.Brokered:
		return said + ": it has a brokered secret, and takes HTTP/1.1 over TLS on port 443 from programs that trust the authorities in $SSL_CERT_FILE"
	}
	return said
}
