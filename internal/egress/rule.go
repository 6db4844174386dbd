package egress

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/belljar/belljar"
)

// MaxRules is the maximum number of rules in a list.
const MaxRules = 1000

// Rules is a list of reachable hosts, prepared for decisions. The zero Rules cover nothing.
type Rules struct {
	any    bool
	exact  map[string]string // each rule by its name
	below  map[string]string // *.example.com by example.com
	ranges []ipRule          // in order, and none overlaps another
	list   string            // name of their setting; "" for none
}

// ipRule is a range of addresses, or one address, with the rule's text.
type ipRule struct {
	prefix netip.Prefix
	text   string
	field  string
}

// Any returns rules that cover every host.
func Any() Rules { return Rules{any: true} }

// Empty reports whether the rules cover nothing.
func (r Rules) Empty() bool { return !r.any && len(r.exact)+len(r.below)+len(r.ranges) == 0 }

// ParseRules reads the rules of a request. The error is [belljar.CodeInvalidRequest] and names the field.
func ParseRules(e belljar.Egress) (Rules, error) {
	p := parser{fields: map[string]string{}}
	lists := []struct {
		name string
		list []string
		add  func(field, text string) error
	}{{"egress.hosts", e.Hosts, p.host}, {"egress.cidrs", e.CIDRs, p.cidr}, {"egress.ips", e.IPs, p.ip}}
	total := 0
	for _, l := range lists {
		if total += len(l.list); total > MaxRules {
			return Rules{}, refuse(l.name, fmt.Sprintf("send at most %d rules in all", MaxRules), "egress has more than %d rules", MaxRules)
		}
	}
	for _, l := range lists {
		for i, text := range l.list {
			if err := l.add(fmt.Sprintf("%s[%d]", l.name, i), text); err != nil {
				return Rules{}, err
			}
		}
	}
	return p.done()
}

// ParseList reads an operator's list of hosts, CIDR blocks and addresses. "*" is every host. The addresses in it are the
// special ones that a request can open; a list without addresses permits all.
func ParseList(name string, list []string) (Rules, error) {
	if len(list) > MaxRules {
		return Rules{}, refuse(name, fmt.Sprintf("list at most %d rules", MaxRules), "%s has more than %d rules", name, MaxRules)
	}
	p := parser{fields: map[string]string{}, rules: Rules{list: name}}
	for i, text := range list {
		field := fmt.Sprintf("%s[%d]", name, i)
		add := p.host
		if _, err := netip.ParseAddr(text); err == nil {
			add = p.ip
		} else if _, err := netip.ParsePrefix(text); err == nil {
			add = p.cidr
		}
		if text == "*" && !p.rules.any {
			p.rules.any = true
			continue
		}
		if err := add(field, text); err != nil {
			return Rules{}, err
		}
	}
	if p.rules.any && len(p.hosts) > 0 {
		field := p.fields[p.hosts[0]]
		return Rules{}, refuse(field, `remove it: next to "*" stand only the private networks and addresses that requests can open`, `%s: %q is covered by "*"`, field, p.hosts[0])
	}
	return p.done()
}

// parser collects rules, with the field of each.
type parser struct {
	rules  Rules
	hosts  []string          // in order
	fields map[string]string // of hosts
}

func refuse(field, hint, format string, args ...any) error {
	return &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf(format, args...), Hint: hint,
		Details: map[string]any{"field": field},
	}
}

func (p *parser) host(field, text string) error {
	shown := clip(text)
	if hint := notHost(text); hint != "" {
		return refuse(field, hint, "%s: %q is not a host name", field, shown)
	}
	bare, wildcard := strings.CutPrefix(text, "*.")
	name, err := canonical(bare)
	if err != nil {
		return refuse(field, `name a host, such as example.com, or every name below it, *.example.com`, "%s: %q %v", field, shown, err)
	}
	if !wildcard {
		if p.rules.exact == nil {
			p.rules.exact = map[string]string{}
		}
		return p.set(p.rules.exact, name, name, field)
	}
	if suffix, _ := publicsuffix.PublicSuffix(name); suffix == name {
		return refuse(field, "name the domain: *.example."+name, "%s: %q covers a public suffix", field, shown)
	}
	if p.rules.below == nil {
		p.rules.below = map[string]string{}
	}
	return p.set(p.rules.below, name, "*."+name, field)
}

// notHost returns a correction for a text that is clearly not a host name, or "".
func notHost(text string) string {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		scheme, rest = "", text
	}
	name, _, _ := strings.Cut(rest, "/")
	_, addrErr := netip.ParseAddr(strings.Trim(text, "[]"))
	_, cidrErr := netip.ParsePrefix(text)
	switch {
	case addrErr == nil && strings.HasPrefix(text, "["):
		return "write the address without brackets: " + strings.Trim(text, "[]")
	case addrErr == nil:
		return "an address is a rule of egress.ips"
	case cidrErr == nil:
		return "a range is a rule of egress.cidrs"
	case text == "*":
		return "there is no rule for every host: name the hosts, such as example.com or *.example.com"
	case scheme != "":
		return "leave out the scheme: " + clip(name)
	case strings.Contains(rest, "/"):
		return "leave out the path, rules are for whole hosts: " + clip(name)
	case strings.Contains(name, ":"):
		host, _, _ := strings.Cut(name, ":")
		return "leave out the port, the server sets the ports: " + clip(host)
	case strings.Contains(strings.TrimPrefix(name, "*."), "*"):
		return "a wildcard is the whole first label: *.example.com"
	case strings.ContainsFunc(name, func(r rune) bool { return r >= 0x80 }):
		return "write the name in its ASCII form, which begins with xn--"
	}
	return ""
}

// set adds a host rule.
func (p *parser) set(to map[string]string, key, text, field string) error {
	if first, ok := p.fields[text]; ok {
		return refuse(field, "remove one of them", "%s: %q is %s again", field, text, first)
	}
	p.fields[text] = field
	p.hosts = append(p.hosts, text)
	to[key] = text
	return nil
}

func (p *parser) cidr(field, text string) error {
	prefix, err := netip.ParsePrefix(text)
	hint := "write an address and the length of its prefix, such as 203.0.113.0/24 or 2001:db8::/32"
	switch {
	case err != nil:
		if !strings.Contains(text, "/") {
			hint = "a single address is a rule of egress.ips"
		}
		return refuse(field, hint, "%s: %q is not a CIDR block", field, clip(text))
	case prefix.Addr().Is4In6():
		return refuse(field, "write it as an IPv4 block", "%s: %q is IPv4 in the form of IPv6", field, text)
	case prefix != prefix.Masked():
		return refuse(field, "write "+prefix.Masked().String(), "%s: %q has bits after its prefix", field, text)
	}
	p.rules.ranges = append(p.rules.ranges, ipRule{prefix, prefix.String(), field})
	return nil
}

func (p *parser) ip(field, text string) error {
	ip, err := netip.ParseAddr(text)
	hint := "write an address, such as 203.0.113.7 or 2001:db8::7"
	switch {
	case err != nil:
		if _, e := netip.ParsePrefix(text); e == nil {
			hint = "a range is a rule of egress.cidrs"
		}
		return refuse(field, hint, "%s: %q is not an IP address", field, clip(text))
	case ip.Zone() != "":
		return refuse(field, "leave out the zone", "%s: %q has a zone", field, clip(text))
	case ip.Is4In6():
		return refuse(field, "write "+ip.Unmap().String(), "%s: %q is IPv4 in the form of IPv6", field, text)
	}
	p.rules.ranges = append(p.rules.ranges, ipRule{netip.PrefixFrom(ip, ip.BitLen()), ip.String(), field})
	return nil
}

// done refuses rules that another rule covers, and returns the rest in order.
func (p *parser) done() (Rules, error) {
	for _, text := range p.hosts {
		if wide, ok := p.rules.wildcard(strings.TrimPrefix(text, "*.")); ok {
			field := p.fields[text]
			return Rules{}, refuse(field, "remove one of them", "%s: %q is covered by %q, %s", field, text, wide, p.fields[wide])
		}
	}
	ranges := p.rules.ranges
	slices.SortStableFunc(ranges, func(a, b ipRule) int {
		if c := a.prefix.Addr().Compare(b.prefix.Addr()); c != 0 {
			return c
		}
		return a.prefix.Bits() - b.prefix.Bits()
	})
	for i := 1; i < len(ranges); i++ {
		if a, b := ranges[i-1], ranges[i]; a.prefix.Overlaps(b.prefix) {
			return Rules{}, refuse(b.field, "remove one of them", "%s: %q is covered by %q, %s", b.field, b.text, a.text, a.field)
		}
	}
	return p.rules, nil
}

// name returns the rule that covers a name in canonical form.
func (r *Rules) name(name string) (rule string, ok bool) {
	if r.any {
		return "*", true
	}
	if rule, ok := r.exact[name]; ok {
		return rule, true
	}
	return r.wildcard(name)
}

// wildcard returns the wildcard that covers a name. *.example.com covers every name below example.com, but not example.com.
func (r *Rules) wildcard(name string) (rule string, ok bool) {
	if len(r.below) == 0 {
		return "", false
	}
	for {
		i := strings.IndexByte(name, '.')
		if i < 0 {
			return "", false
		}
		name = name[i+1:]
		if rule, ok := r.below[name]; ok {
			return rule, true
		}
	}
}

// address returns the rule that covers an address.
func (r *Rules) address(ip netip.Addr) (rule string, ok bool) {
	if r.any {
		return "*", true
	}
	if found, ok := r.lookup(ip); ok {
		return found.text, true
	}
	return "", false
}

// opens reports whether the rules let a request open a special address: those that they list, or any if they list none.
func (r *Rules) opens(ip netip.Addr) bool {
	if len(r.ranges) == 0 {
		return true
	}
	_, ok := r.lookup(ip)
	return ok
}

// pattern is a name, a wildcard or a range as text, and the rule that it belongs to: itself, or a preset.
type pattern struct{ text, rule string }

// patterns returns the patterns of the rules, in order.
func (r *Rules) patterns() (list []pattern) {
	for name, rule := range r.exact {
		list = append(list, pattern{name, rule})
	}
	for name, rule := range r.below {
		list = append(list, pattern{"*." + name, rule})
	}
	slices.SortFunc(list, func(a, b pattern) int { return strings.Compare(a.text, b.text) })
	for _, own := range r.ranges {
		list = append(list, pattern{own.text, own.text})
	}
	return list
}

// meets reports whether the rules cover any part of a rule, given as text.
func (r *Rules) meets(text string) bool {
	if r.any {
		return true
	}
	prefix, err := netip.ParsePrefix(text)
	if ip, failed := netip.ParseAddr(text); failed == nil {
		prefix, err = netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	if err == nil {
		return slices.ContainsFunc(r.ranges, func(own ipRule) bool { return own.prefix.Overlaps(prefix) })
	}
	bare, wildcard := strings.CutPrefix(text, "*.")
	if _, ok := r.name(bare); ok && !wildcard {
		return true
	}
	if !wildcard {
		return false
	}
	if _, ok := r.wildcard("x." + bare); ok { // the same wildcard, or a wider one
		return true
	}
	under := func(name string) bool { return strings.HasSuffix(name, "."+bare) }
	return slices.ContainsFunc(slices.Collect(maps.Keys(r.exact)), under) || slices.ContainsFunc(slices.Collect(maps.Keys(r.below)), under)
}

func (r *Rules) lookup(ip netip.Addr) (ipRule, bool) {
	i, found := slices.BinarySearchFunc(r.ranges, ip, func(rule ipRule, ip netip.Addr) int { return rule.prefix.Addr().Compare(ip) })
	if !found {
		i--
	}
	if i >= 0 && r.ranges[i].prefix.Contains(ip) {
		return r.ranges[i], true
	}
	return ipRule{}, false
}

// With returns the rules and more hosts, all with the same text. Hosts that a rule already covers keep that rule.
func (r Rules) With(text string, hosts ...string) (Rules, error) {
	r.exact = maps.Clone(r.exact)
	if r.exact == nil {
		r.exact = map[string]string{}
	}
	for _, host := range hosts {
		name, err := canonical(host)
		if err != nil {
			return r, fmt.Errorf("%q %w", clip(host), err)
		}
		if _, covered := r.name(name); !covered {
			r.exact[name] = text
		}
	}
	return r, nil
}

// clip shortens a caller's text for a message.
func clip(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}

// Within reports whether the rules cover all addresses of other, which has only addresses.
func (r Rules) Within(other Rules) bool {
	if r.any && len(r.ranges) == 0 {
		return true
	}
	for _, o := range other.ranges {
		own, ok := r.lookup(o.prefix.Addr())
		if !ok || own.prefix.Bits() > o.prefix.Bits() {
			return false
		}
	}
	return true
}
