//go:build linux

package security

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/belljar/belljar/test/peer"
)

// network gives the sandbox a peer that it may reach, by the names api.test, pinned.test and *.wild.test, and by its address. All
// other places must be unreachable: LANE_BAIT, another address of this machine, and LANE_PORT on its loopback. The resolver
// returns the bait's address for every name that is not listed.
func network(t *testing.T, tr *trial) func(outcome) {
	p := peer.Start(t, "api.test", "pinned.test", "*.wild.test")
	bait := newBait(t)
	p.Lie("*", bait.ip)
	own := netip.MustParseAddr(p.Address)
	p.Lie("pinned.test", own, bait.ip)
	p.Lie("rebind.wild.test", own, bait.ip)
	p.Lie("bait.wild.test", bait.ip)
	for i, ip := range special() {
		p.Lie(fmt.Sprintf("special-%d.wild.test", i), netip.MustParseAddr(ip))
	}
	first, last := marks(p, tr)
	tr.env = append(tr.env, "SANDBOX_EGRESS_RESOLVER="+p.Resolver, "SANDBOX_EGRESS_PORTS=53,80,443,"+bait.port)
	for _, rule := range []string{"api.test", "pinned.test", "*.wild.test", p.Address} {
		tr.flags = append(tr.flags, "--allow", rule)
	}
	for name, value := range map[string]string{"SPECIAL": strconv.Itoa(len(special())), "PEER": p.Address, "BAIT": bait.ip.String(), "PORT": bait.port} {
		tr.flags = append(tr.flags, "--env", "LANE_"+name+"="+value)
	}
	return func(outcome) {
		if n := bait.calls.Load(); n != 0 {
			t.Errorf("the host's listeners were reached %d times", n)
		}
		listed := func(name string) bool {
			return name == "api.test" || name == "pinned.test" || strings.HasSuffix(name, ".wild.test")
		}
		for host, n := range p.Hosts() {
			if !listed(host) {
				t.Errorf("the peer had %d requests for %q", n, host)
			}
		}
		below := 0
		for name, n := range p.Asked() {
			if !listed(name) || strings.HasPrefix(name, "text-") {
				t.Errorf("the resolver was asked %d times for %q", n, name)
			}
			if strings.HasSuffix(name, ".wild.test") {
				below++
			}
		}
		if below > 256 {
			t.Errorf("the resolver was asked for %d names", below)
		}
		if len(p.Asked()) == 0 {
			t.Error("control: the resolver was not asked")
		}
		if was, now := first.Load(), last.Load(); now > was+settled {
			t.Errorf("belljar has %d descriptors, %d before", now, was)
		}
	}
}

// special returns an address of every range that is not on the internet: of the machine itself, of private networks, of protocol
// translation.
func special() []string {
	return []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.64.0.2", "169.254.169.254", "172.16.0.1", "172.31.255.254", "192.0.0.8",
		"192.168.0.1", "198.18.0.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "::", "::1",
		"::127.0.0.1", "::ffff:10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::a00:1", "100::1", "2001::1", "2002:7f00:1::",
		"5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1",
	}
}

// networkEmpty gives the sandbox rules that the server's list does not contain: together they allow nothing.
func networkEmpty(t *testing.T, tr *trial) func(outcome) {
	p := peer.Start(t, "api.test", "pinned.test", "*.wild.test")
	bait := newBait(t)
	p.Lie("*", bait.ip)
	tr.env = append(tr.env, "SANDBOX_EGRESS_RESOLVER="+p.Resolver, "SANDBOX_EGRESS_ALLOW=api.test,"+p.Address)
	tr.flags = append(tr.flags, "--allow", "pinned.test", "--allow", "*.wild.test", "--allow", bait.ip.String(),
		"--env", "LANE_PEER="+p.Address, "--env", "LANE_BAIT="+bait.ip.String())
	return func(outcome) {
		if n := bait.calls.Load(); n != 0 {
			t.Errorf("the host's listeners were reached %d times", n)
		}
		if len(p.Hosts()) > 0 || len(p.Asked()) > 0 {
			t.Errorf("the peer had requests for %v, the resolver for %v", p.Hosts(), p.Asked())
		}
	}
}

// networkNeighbour keeps another sandbox alive that uses a network for which the attack has no rules.
func networkNeighbour(t *testing.T, tr *trial) func(outcome) {
	other := tr.lane.trial(t)
	verify := network(t, other)
	peer := slices.IndexFunc(other.flags, func(s string) bool { return strings.HasPrefix(s, "LANE_PEER=") })
	tr.flags = append(tr.flags, "--env", other.flags[peer])
	other.flags = append(other.flags, "--workspace-exec", "--file", built.Probe+":probe")
	end := other.hold("./probe reach api.test >&2")
	tr.server = other.server
	return func(got outcome) {
		end()
		verify(got)
	}
}

// settled is how many more descriptors belljar may have than before: those of the request's own connection, and of the Go runtime.
const settled = 8

// marks counts belljar's descriptors whenever a program requests /mark. The answer is settled or busy.
func marks(p *peer.Peer, tr *trial) (first, last *atomic.Int64) {
	first, last = new(atomic.Int64), new(atomic.Int64)
	p.Handle("/mark", func(w http.ResponseWriter, _ *http.Request) {
		n := int64(tr.descriptors())
		last.Store(n)
		if first.CompareAndSwap(0, n) || n <= first.Load()+settled {
			fmt.Fprintf(w, "settled: %d\n", n)
			return
		}
		fmt.Fprintf(w, "busy: %d\n", n)
	})
	return first, last
}

// descriptors counts the descriptors of the trial's processes on the host. A sandbox's programs do not have the trial's
// environment.
func (tr *trial) descriptors() int {
	n := 0
	all, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, dir := range all {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil || !bytes.Contains(env, []byte("HOME="+tr.dir+"\x00")) {
			continue // it has ended, or belongs to another trial
		}
		if list, err := os.ReadDir(filepath.Join(dir, "fd")); err == nil {
			n += len(list)
		}
	}
	return n
}

// lure listens at places that no sandbox may reach.
type lure struct {
	ip    netip.Addr
	port  string // the same port on 127.0.0.1
	calls atomic.Int64
}

func newBait(t *testing.T) *lure {
	b := &lure{ip: netip.MustParseAddr(peer.Address(t))}
	listen := func(addr string) net.Listener {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	shared := listen("127.0.0.1:0")
	b.port = strconv.Itoa(shared.Addr().(*net.TCPAddr).Port)
	go b.serve(shared, false)
	for _, port := range []string{"53", "80", "443", b.port} {
		at := net.JoinHostPort(b.ip.String(), port)
		go b.serve(listen(at), true)
		c, err := net.ListenPacket("udp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		go func() {
			for buf := make([]byte, 1500); ; b.calls.Add(1) {
				if _, _, err := c.ReadFrom(buf); err != nil {
					return
				}
			}
		}()
	}
	return b
}

// serve counts connections: all of them or, where other programs may connect, those with the probe's word.
func (b *lure) serve(l net.Listener, all bool) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if all {
			b.calls.Add(1)
		}
		go func() {
			if answered(c) == insideWord && !all {
				b.calls.Add(1)
			}
		}()
	}
}
