package egress

import (
	"net/netip"
)

// special lists the ranges that are not public, from the registries of special-purpose addresses. It omits the ranges for
// documentation, which lead nowhere.
func special() []netip.Prefix {
	var list []netip.Prefix
	for _, s := range []string{
		"0.0.0.0/8",
		"10.0.0.0/8",
		"100.64.0.0/10",    // shared by carriers; metadata of some clouds
		"127.0.0.0/8",      //
		"168.63.129.16/32", // the host, in one cloud
		"169.254.0.0/16",   // link-local; metadata of most clouds
		"172.16.0.0/12",
		"192.0.0.0/24", // protocol assignments
		"192.168.0.0/16",
		"198.18.0.0/15",   // benchmarks, and proxies that invent addresses
		"224.0.0.0/4",     // multicast
		"240.0.0.0/4",     // reserved, and broadcast
		"::/96",           // unspecified, loopback, IPv4-compatible
		"::ffff:0:0:0/96", // IPv4-translated
		"64:ff9b:1::/48",
		"100::/64", // discard
		"2001::/23",
		"5f00::/16", // segment routing
		"fc00::/7",
		"fe80::/10",
		"fec0::/10",
		"ff00::/8",
	} {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}

var (
	specials  = special()
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// specialRange returns the range that makes an address special. An address that only wraps an IPv4 address (NAT64, 6to4) is as
// special as the wrapped address.
func specialRange(ip netip.Addr) (netip.Prefix, bool) {
	for _, p := range specials {
		if p.Contains(ip) {
			return p, true
		}
	}
	if inner, ok := wrapped(ip); ok {
		if _, ok := specialRange(inner); ok {
			return netip.PrefixFrom(ip, ip.BitLen()), true
		}
	}
	return netip.Prefix{}, false
}

// wrapped returns the IPv4 address inside an IPv6 address.
func wrapped(ip netip.Addr) (netip.Addr, bool) {
	b := ip.As16()
	switch {
	case nat64.Contains(ip):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}
