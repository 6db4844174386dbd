package main

import (
	"errors"
	"net"
	"slices"

	"gvisor.dev/gvisor/runsc/boot"
)

// relayAddr is a second address of the loopback, as in the native runtime. The C library looks for IPv4 addresses only if an
// interface has an address other than 127.0.0.1 (AI_ADDRCONFIG).
var relayAddr = boot.IPWithPrefix{Address: net.IP{127, 64, 0, 1}, PrefixLen: 8}

// extendLoopback adds the address to the loopback of every sandbox.
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
