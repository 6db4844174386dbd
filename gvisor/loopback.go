package main

import (
	"errors"
	"net"
	"slices"

	"gvisor.dev/gvisor/runsc/boot"
)

// relayAddr is the loopback's address besides 127.0.0.1, as in the native runtime. The C library only looks for addresses of IPv4
// if an interface has one that is not that (AI_ADDRCONFIG).
var relayAddr = boot.IPWithPrefix{Address: net.IP{127, 64, 0, 1}, PrefixLen: 8}

// extendLoopback gives the loopback of every sandbox its address.
func extendLoopback() error {
	is := func(a boot.IPWithPrefix) bool { return a.Address.Equal(relayAddr.Address) }
	link := &boot.DefaultLoopbackLink
	if link.Name != "lo" || len(link.Addresses) == 0 {
		return errors.New("gVisor's loopback has moved")
	}
	if !slices.ContainsFunc(link.Addresses, is) {
		link.Addresses = append(link.Addresses, relayAddr)
	}
	return nil
}
