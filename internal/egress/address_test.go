package egress

import (
	"net/netip"
	"testing"
)

func TestSpecialAddresses(t *testing.T) {
	for _, ip := range []string{
		"0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.100.100.200", "100.127.255.255",
		"127.0.0.1", "127.0.0.53", "127.255.255.255", "168.63.129.16", "169.254.0.0", "169.254.169.254", "169.254.255.255",
		"172.16.0.0", "172.31.255.255", "192.0.0.192", "192.168.0.0", "192.168.255.255", "198.18.0.1", "198.19.255.255",
		"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::7f00:1", "::ffff:0:a00:1", "::ffff:0:a9fe:a9fe", "64:ff9b::a00:1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b::", "64:ff9b:1::1",
		"64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "100::1", "2001::1", "2001:0:53aa:64c:0:fbff:f5ff:fffe", "2002:a00:1::", "2002:7f00:1::1", "2002:a9fe:a9fe::1",
		"5f00::1", "fc00::", "fd00:ec2::254", "fd20:ce::254", "fdff:ffff::", "fe80::1", "febf::1", "fec0::1", "ff02::1", "ff0e::1",
	} {
		if _, ok := specialRange(netip.MustParseAddr(ip)); !ok {
			t.Errorf("%s passes for public", ip)
		}
	}
	for _, ip := range []string{
		"1.0.0.0", "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
		"168.63.129.15", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255",
		"198.20.0.0", "203.0.113.7", "223.255.255.255", "2606:4700::1111", "2001:4860:4860::8888", "64:ff9b::808:808", "2002:808:808::1",
		"fbff::1", "2001:db8::1",
	} {
		if p, ok := specialRange(netip.MustParseAddr(ip)); ok {
			t.Errorf("%s is not public, by %s", ip, p)
		}
	}
}

func TestAdmits(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("10.0.0.1")}
	list := func(list ...string) Rules {
		rules, err := ParseList("x", list)
		if err != nil {
			t.Fatal(err)
		}
		return rules
	}
	for _, tt := range []struct {
		rules   Rules
		private bool
		ip      string
		want    bool
	}{
		{list("*"), false, "8.8.8.8", true},
		{list("*"), false, "203.0.113.1", false}, // the host
		{list("*"), true, "203.0.113.1", false},
		{list("*"), true, "64:ff9b::cb00:7101", false}, // the host, by NAT64 and 6to4
		{list("*"), true, "2002:cb00:7101::1", false},
		{list("*"), true, "64:ff9b::cb00:7102", true},
		{list("64:ff9b::cb00:7101"), true, "64:ff9b::cb00:7101", true},
		{list("203.0.113.0/24"), true, "203.0.113.1", false}, // the rule does not name the host itself
		{list("203.0.113.1"), false, "203.0.113.1", false},
		{list("203.0.113.1"), true, "203.0.113.1", true},
		{list("10.0.0.0/8"), false, "10.0.0.1", false},
		{list("10.0.0.0/8"), true, "10.0.0.1", true},
		{list("10.0.0.0/8"), true, "10.9.9.9", true},
		{list("10.0.0.0/7"), true, "10.9.9.9", false}, // wider than the range
		{list("0.0.0.0/0"), true, "169.254.169.254", false},
		{list("::/0"), true, "::1", false},
		{list("::/0"), true, "64:ff9b::a00:1", false},
		{list("64:ff9b::a00:1"), true, "64:ff9b::a00:1", true},
		{list("*"), true, "10.9.9.9", false},
	} {
		p := Policy{Run: tt.rules, Server: Any(), Private: tt.private}
		if got := p.admits("any.example", netip.MustParseAddr(tt.ip), own); got != tt.want {
			t.Errorf("%v private %v admits %s: %v", tt.rules.ranges, tt.private, tt.ip, got)
		}
	}
}

func TestOwnAddresses(t *testing.T) {
	own, err := ownAddresses()
	if err != nil || len(own) == 0 {
		t.Fatalf("%v, %v", own, err)
	}
	for _, ip := range own {
		if ip.Is4In6() || ip.Zone() != "" {
			t.Errorf("%s cannot be compared", ip)
		}
	}
}
