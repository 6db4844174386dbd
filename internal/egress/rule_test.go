package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

func TestParseRulesRefuses(t *testing.T) {
	many := make([]string, MaxRules+1)
	for i := range many {
		many[i] = fmt.Sprintf("h%d.example.com", i)
	}
	hosts := func(list ...string) belljar.Egress { return belljar.Egress{Hosts: list} }
	cidrs := func(list ...string) belljar.Egress { return belljar.Egress{CIDRs: list} }
	ips := func(list ...string) belljar.Egress { return belljar.Egress{IPs: list} }
	for _, tt := range []struct {
		egress      belljar.Egress
		field, hint string
	}{
		{hosts("ok.example", "https://example.com"), "egress.hosts[1]", "leave out the scheme: example.com"},
		{hosts("https://example.com/x"), "egress.hosts[0]", "leave out the scheme: example.com"},
		{hosts("example.com:443"), "egress.hosts[0]", "leave out the port"},
		{hosts("example.com/path"), "egress.hosts[0]", "leave out the path"},
		{hosts("example.com/"), "egress.hosts[0]", "leave out the path"},
		{hosts("b\u00fccher.example"), "egress.hosts[0]", "xn--"},
		{hosts("\u0435xample.com"), "egress.hosts[0]", "xn--"},
		{hosts("*"), "egress.hosts[0]", "no rule for every host"},
		{hosts("*.com"), "egress.hosts[0]", "*.example.com"},
		{hosts("*.co.uk"), "egress.hosts[0]", "*.example.co.uk"},
		{hosts("*.github.io"), "egress.hosts[0]", "*.example.github.io"},
		{hosts("*.internal"), "egress.hosts[0]", "*.example.internal"},
		{hosts("*.*.example.com"), "egress.hosts[0]", "whole first label"},
		{hosts("api.*.example.com"), "egress.hosts[0]", "whole first label"},
		{hosts("api*.example.com"), "egress.hosts[0]", "whole first label"},
		{hosts("*example.com"), "egress.hosts[0]", "whole first label"},
		{hosts("*."), "egress.hosts[0]", "name a host"},
		{hosts(""), "egress.hosts[0]", "name a host"},
		{hosts("ex ample.com"), "egress.hosts[0]", "name a host"},
		{hosts("a\x00b.example"), "egress.hosts[0]", "name a host"},
		{hosts("a_b.example"), "egress.hosts[0]", "name a host"},
		{hosts("user@example.com"), "egress.hosts[0]", "name a host"},
		{hosts("127.1"), "egress.hosts[0]", "name a host"},
		{hosts(strings.Repeat("a", 1<<20)), "egress.hosts[0]", "name a host"},
		{hosts("203.0.113.7"), "egress.hosts[0]", "egress.ips"},
		{hosts("[2001:db8::1]"), "egress.hosts[0]", "without brackets: 2001:db8::1"},
		{hosts("203.0.113.0/24"), "egress.hosts[0]", "egress.cidrs"},
		{hosts("a.example", "A.example."), "egress.hosts[1]", "remove one"},
		{hosts("*.example.com", "api.example.com"), "egress.hosts[1]", "remove one"},
		{hosts("api.example.com", "*.example.com"), "egress.hosts[0]", "remove one"},
		{hosts("*.example.com", "*.b.example.com"), "egress.hosts[1]", "remove one"},
		{hosts(many...), "egress.hosts", "at most 1000"},
		{belljar.Egress{Hosts: many[:600], CIDRs: many[:300], IPs: many[:101]}, "egress.ips", "at most 1000"},
		{cidrs("203.0.113.7"), "egress.cidrs[0]", "egress.ips"},
		{cidrs("203.0.113.7/24"), "egress.cidrs[0]", "write 203.0.113.0/24"},
		{cidrs("203.0.113.0/33"), "egress.cidrs[0]", "203.0.113.0/24"},
		{cidrs("203.0.113.0"), "egress.cidrs[0]", "egress.ips"},
		{cidrs("example.com/24"), "egress.cidrs[0]", "203.0.113.0/24"},
		{cidrs("::ffff:10.0.0.0/104"), "egress.cidrs[0]", "IPv4"},
		{cidrs("fe80::%eth0/64"), "egress.cidrs[0]", "2001:db8::/32"},
		{cidrs("10.0.0.0/8", "10.1.0.0/16"), "egress.cidrs[1]", "remove one"},
		{cidrs("10.1.0.0/16", "10.0.0.0/8"), "egress.cidrs[0]", "remove one"},
		{cidrs("10.0.0.0/8", "10.0.0.0/8"), "egress.cidrs[1]", "remove one"},
		{belljar.Egress{CIDRs: []string{"10.0.0.0/8"}, IPs: []string{"10.2.3.4"}}, "egress.ips[0]", "remove one"},
		{ips("example.com"), "egress.ips[0]", "203.0.113.7"},
		{ips("203.0.113.0/24"), "egress.ips[0]", "egress.cidrs"},
		{ips("203.0.113.07"), "egress.ips[0]", "203.0.113.7"},
		{ips("::ffff:10.0.0.1"), "egress.ips[0]", "write 10.0.0.1"},
		{ips("fe80::1%eth0"), "egress.ips[0]", "zone"},
		{ips("[2001:db8::1]"), "egress.ips[0]", "2001:db8::7"},
		{ips("*"), "egress.ips[0]", "203.0.113.7"},
	} {
		_, err := ParseRules(tt.egress)
		var e *belljar.Error
		if !errors.As(err, &e) {
			t.Errorf("%.80v: %v", tt.egress, err)
			continue
		}
		if e.Code != belljar.CodeInvalidRequest || e.Details["field"] != tt.field || !strings.Contains(e.Hint, tt.hint) ||
			!strings.HasPrefix(e.Message, tt.field) && tt.field != "egress.hosts" && tt.field != "egress.ips" {
			t.Errorf("%.80v: %s %v, hint %q; want field %s, hint %q", tt.egress, e.Message, e.Details, e.Hint, tt.field, tt.hint)
		}
		if len(e.Message)+len(e.Hint) > 500 {
			t.Errorf("%.80v: a message of %d bytes", tt.egress, len(e.Message))
		}
	}
}

func TestParseList(t *testing.T) {
	rules, err := ParseList("SANDBOX_EGRESS_ALLOW", []string{"example.com", "*.example.org", "203.0.113.0/24", "2001:db8::7"})
	if err != nil {
		t.Fatal(err)
	}
	p := Policy{Run: rules, Server: Any(), Ports: []uint16{443}}
	for _, host := range []string{"example.com", "a.example.org", "203.0.113.9", "2001:db8::7"} {
		if _, reason := p.Decide(host, 443); reason != "" {
			t.Errorf("%s: %s", host, reason)
		}
	}
	if rules, err := ParseList("X", []string{"*"}); err != nil || rules.Empty() {
		t.Errorf("*: %v, empty %v", err, rules.Empty())
	}
	if rules, err := ParseList("X", nil); err != nil || !rules.Empty() {
		t.Errorf("no rules: %v, empty %v", err, rules.Empty())
	}
	for _, list := range [][]string{{"*", "example.com"}, {"example.com", "*"}, {"*.com"}, {"https://example.com"}, {""}, slices.Repeat([]string{"a.example"}, MaxRules+1)} {
		if _, err := ParseList("X", list); belljar.CodeOf(err) != belljar.CodeInvalidRequest || belljar.HintOf(err) == "" {
			t.Errorf("%.60v: %v", list, err)
		}
	}
}

func TestDecide(t *testing.T) {
	parse := func(e belljar.Egress) Rules {
		t.Helper()
		rules, err := ParseRules(e)
		if err != nil {
			t.Fatal(err)
		}
		return rules
	}
	run := parse(belljar.Egress{
		Hosts: []string{"example.com", "*.example.org", "*.deep.example.net", "Upper.Example.NET."},
		CIDRs: []string{"198.51.100.0/24", "0.0.0.0/6", "8.0.0.0/7", "2001:db8::/32", "10.0.0.0/8", "fd00::/8"},
		IPs:   []string{"203.0.113.7", "192.168.1.1", "169.254.169.254"},
	})
	policy := func(change func(*Policy)) *Policy {
		p := &Policy{Run: run, Server: Any(), Ports: []uint16{80, 443}}
		if change != nil {
			change(p)
		}
		return p
	}
	private := policy(func(p *Policy) { p.Private = true })
	for _, tt := range []struct {
		p      *Policy
		host   string
		port   uint16
		rule   string
		reason Reason
	}{
		{policy(nil), "example.com", 443, "example.com", ""},
		{policy(nil), "EXAMPLE.com.", 443, "example.com", ""},
		{policy(nil), "www.example.com", 443, "", NoMatch},
		{policy(nil), "evilexample.com", 443, "", NoMatch},
		{policy(nil), "example.com.evil.org", 443, "", NoMatch},
		{policy(nil), "example.com", 22, "", PortDenied},
		{policy(nil), "elsewhere.example", 22, "", PortDenied},
		{policy(nil), "example.com", 0, "", PortDenied},
		{policy(nil), "example.org", 443, "", NoMatch},
		{policy(nil), "a.example.org", 443, "*.example.org", ""},
		{policy(nil), "a.b.c.example.org", 80, "*.example.org", ""},
		{policy(nil), "evilexample.org", 443, "", NoMatch},
		{policy(nil), "a.example.org.evil.net", 443, "", NoMatch},
		{policy(nil), "deep.example.net", 443, "", NoMatch},
		{policy(nil), "x.deep.example.net", 443, "*.deep.example.net", ""},
		{policy(nil), "x.example.net", 443, "", NoMatch},
		{policy(nil), "upper.example.net", 443, "upper.example.net", ""},
		{policy(nil), "a\x00.example.org", 443, "", NoMatch},
		{policy(nil), "evil.com\x00.example.org", 443, "", NoMatch},
		{policy(nil), "*.example.org", 443, "", NoMatch},
		{policy(nil), "", 443, "", NoMatch},
		{policy(nil), "198.51.100.200", 443, "198.51.100.0/24", ""},
		{policy(nil), "198.51.101.1", 443, "", NoMatch},
		{policy(nil), "203.0.113.7", 443, "203.0.113.7", ""},
		{policy(nil), "203.0.113.8", 443, "", NoMatch},
		{policy(nil), "::ffff:203.0.113.7", 443, "203.0.113.7", ""},
		{policy(nil), "2001:db8:1::1", 443, "2001:db8::/32", ""},
		{policy(nil), "2001:db8::1%eth0", 443, "", NoMatch},
		{policy(nil), "8.8.8.8", 443, "8.0.0.0/7", ""},
		{policy(nil), "10.1.2.3", 443, "", PrivateAddress},
		{policy(nil), "192.168.1.1", 443, "", PrivateAddress},
		{policy(nil), "::ffff:192.168.1.1", 443, "", PrivateAddress},
		{policy(nil), "169.254.169.254", 443, "", PrivateAddress},
		{policy(nil), "fd00:ec2::254", 443, "", PrivateAddress},
		{policy(nil), "0.0.0.0", 443, "", PrivateAddress},
		{private, "10.1.2.3", 443, "10.0.0.0/8", ""},
		{private, "192.168.1.1", 443, "192.168.1.1", ""},
		{private, "192.168.1.2", 443, "", NoMatch},
		{private, "fd00:ec2::254", 443, "fd00::/8", ""},
		{private, "0.0.0.0", 443, "", PrivateAddress}, // 0.0.0.0/6 is wider than 0.0.0.0/8
		{policy(func(p *Policy) { p.Server = Rules{} }), "example.com", 443, "", NoMatch},
		{policy(func(p *Policy) { p.Run = Rules{} }), "example.com", 443, "", NoMatch},
		{policy(func(p *Policy) { p.Ports = nil }), "example.com", 443, "", PortDenied},
		{policy(func(p *Policy) { p.Server = parse(belljar.Egress{Hosts: []string{"a.example.org"}}) }), "a.example.org", 443, "*.example.org", ""},
		{policy(func(p *Policy) { p.Server = parse(belljar.Egress{Hosts: []string{"a.example.org"}}) }), "b.example.org", 443, "", NoMatch},
		{policy(func(p *Policy) { p.Server = parse(belljar.Egress{CIDRs: []string{"198.51.100.0/25"}}) }), "198.51.100.200", 443, "", NoMatch},
		{policy(func(p *Policy) { p.Levels = []Rules{Any(), parse(belljar.Egress{Hosts: []string{"a.example.org"}})} }), "a.example.org", 443, "*.example.org", ""},
		{policy(func(p *Policy) { p.Levels = []Rules{Any(), parse(belljar.Egress{Hosts: []string{"a.example.org"}})} }), "b.example.org", 443, "", NoMatch},
		{policy(func(p *Policy) { p.Levels = []Rules{{}} }), "203.0.113.7", 443, "", NoMatch},
	} {
		if rule, reason := tt.p.Decide(tt.host, tt.port); rule != tt.rule || reason != tt.reason {
			t.Errorf("Decide(%q, %d) = %q, %q; want %q, %q", tt.host, tt.port, rule, reason, tt.rule, tt.reason)
		}
	}
	if (Rules{}).Empty() != true || run.Empty() {
		t.Error("Empty is wrong")
	}
}

// A server's list contains the special addresses that a request can open, together with "*" or names. "*" alone does not affect them.
func TestAnyWithRanges(t *testing.T) {
	t.Parallel()
	parse := func(list ...string) Rules {
		t.Helper()
		rules, err := ParseList("SANDBOX_EGRESS_ALLOW", list)
		if err != nil {
			t.Fatalf("%v: %v", list, err)
		}
		return rules
	}
	run := parse("api.example.com", "10.1.2.3", "10.2.0.0/16", "203.0.113.7")
	own := []netip.Addr{netip.MustParseAddr("203.0.113.7")}
	for name, tt := range map[string]struct {
		server  Rules
		private bool
		opened  string // the addresses that are open
	}{
		"alone":               {parse("*"), true, "198.51.100.1 10.1.2.3 10.2.3.4 203.0.113.7"},
		"with a network":      {parse("*", "10.1.0.0/16"), true, "198.51.100.1 10.1.2.3"},
		"the other way round": {parse("10.1.0.0/16", "*"), true, "198.51.100.1 10.1.2.3"},
		"next to names":       {parse("*.example.com", "10.1.0.0/16"), true, "198.51.100.1 10.1.2.3"},
		"with an own address": {parse("*", "203.0.113.7"), true, "198.51.100.1 203.0.113.7"},
		"public only":         {parse("*", "10.1.0.0/16"), false, "198.51.100.1"},
	} {
		p := Policy{Run: run, Server: tt.server, Ports: []uint16{443}, Private: tt.private}
		var opened []string
		for _, ip := range []string{"198.51.100.1", "10.1.2.3", "10.2.3.4", "10.3.0.1", "203.0.113.7"} { // as addresses of a name
			if p.admits("api.example.com", netip.MustParseAddr(ip), own) {
				opened = append(opened, ip)
			}
		}
		if got := strings.Join(opened, " "); got != tt.opened {
			t.Errorf("%s: %s, want %s", name, got, tt.opened)
		}
		if _, reason := p.Decide("api.example.com", 443); reason != "" {
			t.Errorf("%s: %s", name, reason)
		}
		if _, reason := p.Decide("10.1.2.3", 443); (reason == "") != strings.Contains(tt.opened, "10.1.2.3") {
			t.Errorf("%s: 10.1.2.3: %s", name, reason)
		}
	}
	for _, list := range [][]string{{"*", "*"}, {"*", "10.1.0.0/16", "10.1.2.3"}, {"*", "10.1.0.0/16", "example.com"}} {
		if _, err := ParseList("X", list); belljar.CodeOf(err) != belljar.CodeInvalidRequest || belljar.HintOf(err) == "" {
			t.Errorf("%v: %v", list, err)
		}
	}
}

// An address that is open for a name stays open, whatever else a request lists.
func TestOpen(t *testing.T) {
	t.Parallel()
	open, err := ParseList("open", []string{"10.1.0.5"})
	if err != nil {
		t.Fatal(err)
	}
	for _, wide := range [][]string{nil, {"0.0.0.0/0"}} {
		p := policyOf(t, append(wide, "pip.example.com", "other.example.com")...)
		p.Private, p.Open, p.OpenTo = true, []Rules{open}, []string{"pip.example.com"}
		ip := netip.MustParseAddr("10.1.0.5")
		if !p.admits("pip.example.com", ip, nil) || p.admits("other.example.com", ip, nil) || p.admits("pip.example.com", ip.Next(), nil) {
			t.Errorf("with %v: what is opened differs", wide)
		}
	}
}

// Uncovered names the run's rules of which the server's rules cover nothing, but not those that they cover in part.
func TestUncovered(t *testing.T) {
	t.Parallel()
	parse := func(list ...string) Rules {
		t.Helper()
		rules, err := ParseList("rules", list)
		if err != nil {
			t.Fatal(err)
		}
		return rules
	}
	server := parse("api.example.com", "*.example.org", "deep.a.example.net", "*.b.example.net", "203.0.113.0/24", "2001:db8::7")
	p := Policy{Run: parse("api.example.com", "www.example.com", "a.example.org", "example.org", "*.sub.example.org", "*.a.example.net", "*.example.edu",
		"b.example.net", "203.0.112.0/20", "198.51.100.0/24", "2001:db8::/32", "2001:db9::1"), Server: server}
	want := "*.example.edu b.example.net example.org www.example.com 198.51.100.0/24 2001:db9::1"
	if got := strings.Join(p.Uncovered(), " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	p.Levels = []Rules{parse("api.example.com")}
	if got := p.Uncovered(); len(got) != 11 {
		t.Errorf("with the rules of a trust level: %v", got)
	}
	p.Server, p.Levels = Any(), nil
	if got := p.Uncovered(); len(got) != 0 {
		t.Errorf("with *: %v", got)
	}
	p.Run = Any()
	if got := p.Uncovered(); len(got) != 0 {
		t.Errorf("the server's own: %v", got)
	}

	with := func(r Rules, hosts ...string) Rules {
		t.Helper()
		r, err := r.With("preset pip", hosts...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	p = Policy{Run: with(parse("never.test"), "index.test", "files.test"), Server: with(server, "index.test", "files.test")}
	if got := strings.Join(p.Uncovered(), " "); got != "never.test" {
		t.Errorf("with a preset: %s", got)
	}
	p.Levels = []Rules{parse("files.test")}
	if got := strings.Join(p.Uncovered(), " "); got != "never.test" {
		t.Errorf("with a part of a preset: %s", got)
	}
	p.Levels = []Rules{parse("other.test")}
	if got := strings.Join(p.Uncovered(), ", "); got != "preset pip, never.test" {
		t.Errorf("with nothing of a preset: %s", got)
	}
}
