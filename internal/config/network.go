package config

import (
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belljar/belljar"
)

func network(c *Config) []row {
	const ifSet = " Enters the policy hash when not empty."
	return []row{
		{name: "NETWORK_DEFAULT", value: oneOf(&c.NetworkDefault, belljar.NetworkDenyAll, belljar.NetworkAllowlist), def: belljar.NetworkDenyAll, hash: true,
			doc: "Network of requests that set no network_policy. allowlist gives them what SANDBOX_EGRESS_ALLOW lists, or the rules of their user; without any rules the server does not start."},
		{name: "EGRESS_ALLOW", value: list(&c.EgressAllow, checkRule), def: "[]",
			doc: "What sandboxes may reach at most: hosts (api.example.com), all names below one (*.example.com), networks, addresses, or * for every public host. A request lists what it needs of these. If the list has private networks or addresses besides * or names, requests can open no other private ones. An empty list allows nothing, and requests for a network are refused; without a server, it allows every public host." + ifSet},
		{name: "EGRESS_ALLOW_USERS", value: list(&c.EgressAllowUsers, checkUserRule), def: "[]",
			doc: "Rules of single users, as user=rule: alice=api.example.com,alice=*.example.org. A user with such rules has them in place of EGRESS_ALLOW." + ifSet},
		{name: "EGRESS_ALLOW_TRUST", value: list(&c.EgressAllowTrust, checkTrustRule), def: "[]",
			doc: "Rules of trust levels, as level=rule: untrusted=api.example.com. A program of a level with such rules reaches only what these and the rules of its user both allow. Set DEFAULT_TRUST_LEVEL, too, so that users cannot claim a higher level." + ifSet},
		{name: "EGRESS_PORTS", value: ports(&c.EgressPorts), def: "80,443",
			doc: "Ports that sandboxes may connect to. On 80 the request's Host header, and on 443 the TLS server name, must be the host's name. What goes over other ports is not checked. Enters the policy hash when it is not the default."},
		{name: "EGRESS_PRIVATE", value: boolean(&c.EgressPrivate), def: "false",
			doc: "Let requests reach private, loopback and other special addresses that they list in egress.ips or egress.cidrs. Without a server, the default is true: the caller is the operator. Enters the policy hash when true."},
		{name: "EGRESS_PRESETS", value: list(&c.EgressPresets, checkPreset), def: "[]",
			doc: "Presets that requests may name in egress.presets: pip, npm, cargo, go, maven, apt, github. With pip and npm, requests may also have packages installed. A preset reaches the index that the tool of the image is set to and the hosts on which that has its files, whatever EGRESS_ALLOW lists. Without a server, the default is all." + ifSet},
		{name: "PACKAGE_MIRRORS", value: list(&c.PackageMirrors, checkMirror), def: "[]",
			doc: "Indexes in place of those that images set, as preset=URL: pip=https://packages.example.com/simple. The tools of sandboxes with the preset use them. The host must be a name, not an IP address. Users share packages that were installed from them without build scripts. For github, the addresses of its hosts, each as a pair of its own." + ifSet},
		{name: "PACKAGE_TTL_HOURS", value: integer(&c.PackageTTLHours, 1, 8760), unit: "hours", def: "24",
			doc: "Hours for which Belljar uses the versions that it has found for a list of packages, before it asks the index again."},
		{name: "PACKAGE_TIMEOUT_SEC", value: span(&c.PackageTimeout, time.Second, 1, 3600), unit: "seconds", def: "300",
			doc: "Time limit of one installation of packages."},
		{name: "PACKAGE_MAX_MB", value: integer(&c.PackageMaxMB, 1, 64<<10), unit: "MiB", def: "1024",
			doc: "Size of what one request has installed, of each kind. An installation holds twice as much in memory, and 512 MiB."},
		{name: "PACKAGE_KEEP_MB", value: integer(&c.PackageKeepMB, 1, 1<<30), unit: "MiB", def: "4096",
			doc: "Size of all packages that are kept. Above it, those used least recently are removed, unless a sandbox has them."},
		{name: "EGRESS_RESOLVER", value: text(&c.EgressResolver, checkResolver),
			doc: "DNS server for the names that sandboxes may reach, as address:port; 53 is the default port. If unset, the system's resolver."},
		{name: "EGRESS_CA_FILE", value: text(&c.EgressCAFile),
			doc: "PEM file with certificates of authorities that Belljar itself trusts besides the system's and the image's: when it clones a repository, installs packages, or sends a brokered secret. Programs of runs do not get them."},
	}
}

func checkRule(s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("is not a host, a network or an address; an international name is written in its xn-- form")
	}
	return nil
}

// checkUserRule checks user=rule. A user's name may contain an equals sign, a rule may not.
func checkUserRule(s string) error {
	i := strings.LastIndexByte(s, '=')
	if i < 1 || i == len(s)-1 {
		return errors.New("must be user=rule")
	}
	return checkRule(s[i+1:])
}

func checkTrustRule(s string) error {
	level, rule, _ := strings.Cut(s, "=")
	if !slices.Contains(belljar.TrustLevels(), belljar.TrustLevel(level)) || rule == "" {
		return errors.New("must be level=rule, with trusted, standard or untrusted")
	}
	return checkRule(rule)
}

func checkPreset(s string) error {
	if !slices.Contains(belljar.EgressPresets(), s) {
		return errors.New("must be one of " + strings.Join(belljar.EgressPresets(), ", "))
	}
	return nil
}

// checkMirror checks preset=URL.
func checkMirror(s string) error {
	kind, text, _ := strings.Cut(s, "=")
	u, err := url.Parse(text)
	if checkPreset(kind) != nil || err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("must be preset=URL, with one of EGRESS_PRESETS, and an address without a password: pip=https://packages.example.com/simple")
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil { // tools in a sandbox connect to names
		return errors.New("has an IP address as its host, and sandboxes reach an index by its name only: give it one in DNS, or in /etc/hosts of this machine")
	}
	return nil
}

func checkResolver(s string) error {
	if _, err := netip.ParseAddr(s); err == nil {
		return nil
	}
	if a, err := netip.ParseAddrPort(s); err != nil || a.Port() == 0 {
		return errors.New("must be an address, with a port or without: 192.0.2.53:53")
	}
	return nil
}

// Resolver returns SANDBOX_EGRESS_RESOLVER with its port, "" for the system's resolver.
func (c *Config) Resolver() string {
	if a, err := netip.ParseAddr(c.EgressResolver); err == nil {
		return netip.AddrPortFrom(a, 53).String()
	}
	return c.EgressResolver
}

// ports is a list of port numbers.
func ports(p *[]uint16) value {
	const most = 32 // each name in a sandbox has a listener for each port
	return value{kind: "list", bound: "1 to 65535", get: func() any { return *p }, set: func(s string) error {
		items, err := parseList(s)
		if err != nil {
			return err
		}
		if len(items) == 0 {
			return errors.New("must have a port; an empty SANDBOX_EGRESS_ALLOW is what allows nothing")
		}
		if len(items) > most {
			return errors.New("has more than " + strconv.Itoa(most) + " ports")
		}
		var list []uint16
		for _, item := range items {
			n, err := strconv.ParseUint(item, 10, 16)
			if err != nil || n == 0 {
				return errors.New("must be ports from 1 to 65535")
			}
			if slices.Contains(list, uint16(n)) {
				return errors.New("names port " + strconv.Itoa(int(n)) + " twice")
			}
			list = append(list, uint16(n))
		}
		slices.Sort(list)
		*p = list
		return nil
	}}
}
