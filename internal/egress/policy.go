package egress

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// Policy defines what a sandbox may reach: hosts that the run's rules and the server's rules both cover.
type Policy struct {
	Run    Rules
	Server Rules
	Levels []Rules  // the server's for trust levels; each must cover a host, as Server must
	Ports  []uint16 // empty denies every port
	// Private permits the run's own rules for addresses to open ranges that are not public.
	Private bool
	// Open are lists of rules for addresses. They open such ranges to names, as the run's own rules do, and have no other effect.
	Open []Rules
	// OpenTo are the names, in canonical form, that Open applies to; nil is every name.
	OpenTo []string
}

// verdict is a decision about a host and a port, before any name is resolved.
type verdict struct {
	host   string     // in canonical form
	ip     netip.Addr // set if the host is a literal address
	rule   string     // the run's rule
	reason Reason
	server bool // the server's rules deny it or its address
}

// Decide decides about a host, which is a name or a literal address, and a port. The rule is the run's. The addresses of a name are
// checked later, when it is resolved.
func (p *Policy) Decide(host string, port uint16) (rule string, reason Reason) {
	v := p.decide(host, port)
	return v.rule, v.reason
}

func (p *Policy) decide(host string, port uint16) verdict {
	v := p.match(host)
	if v.host != "" && !slices.Contains(p.Ports, port) {
		return verdict{host: v.host, ip: v.ip, reason: PortDenied}
	}
	return v
}

// match is decide for any port.
func (p *Policy) match(host string) verdict {
	if ip, err := netip.ParseAddr(host); err == nil {
		return p.matchAddress(ip)
	}
	name, err := canonical(host)
	if err != nil {
		return verdict{reason: NoMatch}
	}
	v := verdict{host: name}
	rule, ok := p.Run.name(name)
	if !ok {
		v.reason = NoMatch
		return v
	}
	if !p.serves(name) {
		v.reason, v.server = NoMatch, true
		return v
	}
	v.rule = rule
	return v
}

// serves reports whether the server's rules cover a name.
func (p *Policy) serves(name string) bool {
	return p.covers(func(r *Rules) bool { _, ok := r.name(name); return ok })
}

// Uncovered returns the run's rules that the server's rules do not allow at all, in order. A preset counts as one rule, regardless of
// its hosts.
func (p *Policy) Uncovered() (list []string) {
	all, covered := p.Run.patterns(), map[string]bool{}
	for _, own := range all {
		covered[own.rule] = covered[own.rule] || p.covers(func(r *Rules) bool { return r.meets(own.text) })
	}
	for _, own := range all {
		if !covered[own.rule] && !slices.Contains(list, own.rule) {
			list = append(list, own.rule)
		}
	}
	return list
}

// Lists names the settings of the server's rules, for the operator who must change one of them.
func (p *Policy) Lists() string {
	names := []string{cmp.Or(p.Server.list, "SANDBOX_EGRESS_ALLOW")}
	for _, level := range p.Levels {
		names = append(names, level.list)
	}
	slices.Sort(names[1:])
	return strings.Join(names, " or ")
}

// covers reports whether by is true for all of the server's rules.
func (p *Policy) covers(by func(*Rules) bool) bool {
	for i := range p.Levels {
		if !by(&p.Levels[i]) {
			return false
		}
	}
	return by(&p.Server)
}

func (p *Policy) matchAddress(ip netip.Addr) verdict {
	if ip.Zone() != "" {
		return verdict{reason: NoMatch}
	}
	ip = ip.Unmap()
	v := verdict{host: ip.String(), ip: ip}
	rule, ok := p.Run.address(ip)
	if !ok {
		v.reason = NoMatch
		return v
	}
	if !p.covers(func(r *Rules) bool { _, ok := r.address(ip); return ok }) {
		v.reason, v.server = NoMatch, true
		return v
	}
	if !p.admits(v.host, ip, nil) {
		v.reason, v.server = PrivateAddress, !p.opens(ip)
		return v
	}
	v.rule = rule
	return v
}

// opens reports whether the server lets a request open a special address.
func (p *Policy) opens(ip netip.Addr) bool {
	return p.Private && p.covers(func(r *Rules) bool { return r.opens(ip) })
}

// admits reports whether an address of a host may be dialled: it is public and not one of the host's own, or the operator and a rule of
// the run for addresses permit it. The rule must not be wider than the special range: 0.0.0.0/0 does not permit 10.0.0.0/8.
func (p *Policy) admits(host string, ip netip.Addr, own []netip.Addr) bool {
	within, special := specialRange(ip)
	inner, _ := wrapped(ip)
	if !special && (slices.Contains(own, ip) || slices.Contains(own, inner)) {
		within, special = netip.PrefixFrom(ip, ip.BitLen()), true
	}
	if !special {
		return true
	}
	if !p.opens(ip) {
		return false
	}
	narrow := func(r Rules) bool { rule, ok := r.lookup(ip); return ok && rule.prefix.Bits() >= within.Bits() }
	return narrow(p.Run) || (p.OpenTo == nil || slices.Contains(p.OpenTo, host)) && slices.ContainsFunc(p.Open, narrow)
}
