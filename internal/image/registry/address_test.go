package registry

import (
	"net/netip"
	"testing"
)

func TestPublic(t *testing.T) {
	for address, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "2606:4700::1111": true, "::ffff:8.8.8.8": true, "64:ff9b::808:808": true, "2002:808:808::": true,
		"127.0.0.1": false, "127.8.8.8": false, "0.0.0.0": false, "0.1.2.3": false, "10.1.2.3": false, "172.16.0.1": false, "172.31.255.255": false,
		"192.168.1.1": false, "169.254.169.254": false, "168.63.129.16": false, "168.63.129.15": true, "100.64.0.1": false, "192.0.0.8": false, "192.0.2.1": false, "198.18.0.1": false,
		"203.0.113.1": false, "224.0.0.1": false, "240.0.0.1": false, "255.255.255.255": false, "::": false, "::1": false, "fe80::1": false, "fe80::1%eth0": false,
		"fc00::1": false, "fd00:ec2::254": false, "ff02::1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "64:ff9b::7f00:1": false,
		"64:ff9b::a9fe:a9fe": false, "64:ff9b:1::1": false, "2002:7f00:1::": false, "2002:a00:1::": false, "2001:db8::1": false, "2001::1": false, "fec0::1": false,
		"::7f00:1": false, "4000::1": false,
	} {
		if got := public(netip.MustParseAddr(address)); got != want {
			t.Errorf("public(%s) is %v", address, got)
		}
	}
	for _, bad := range []string{"", "registry.example:443", "127.0.0.1:443", "[fe80::1%eth0]:443"} {
		if publicOnly("tcp", bad, nil) == nil {
			t.Errorf("%q is dialled", bad)
		}
	}
	if err := publicOnly("tcp", "8.8.8.8:443", nil); err != nil {
		t.Error(err)
	}
}

func TestLists(t *testing.T) {
	n := &Network{registries: []string{"r.example", "10.0.0.1:5000", "[::1]:5000", "::2"}}
	for address, want := range map[string]bool{
		"r.example:443": true, "r.example:80": true, "r.example:22": false, "x.r.example:443": false, "10.0.0.1:5000": true, "10.0.0.1:443": false,
		"[::1]:5000": true, "[::1]:80": false, "[::2]:443": true, "": false, "r.example": false,
	} {
		if got := n.lists(address); got != want {
			t.Errorf("lists(%q) is %v", address, got)
		}
	}
}
