//go:build linux

package relay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/confine"
	"github.com/belljar/belljar/internal/agent/wire"
)

// name is a name with an address. It keeps the address for the life of the agent, because programs cache addresses.
type name struct {
	text      string
	addr      netip.Addr
	asked     time.Time // when the host last allowed it
	listeners map[uint16]net.Listener
}

// hold is how long an allowed name is used without asking the host again.
const hold = 5 * time.Second

var never time.Time

// Errors of names that the host allows.
var (
	errManyNames = errors.New("too many names")
	errBusyPorts = errors.New("a program in the sandbox has taken the ports")
	errManyAsked = errors.New("too many names at once")
)

// isName reports whether s can be a host name. The host is not asked for others.
func isName(s string) bool {
	if s == "" || len(s) > 253 || s[0] == '.' || strings.Contains(s, "..") || s[len(s)-1] == '.' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return true
}

// known returns the address of a name that the host need not be asked for.
func (r *Relay) known(text string) (addr netip.Addr, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.names[text]; n != nil && r.link != nil && time.Since(n.asked) < hold {
		return n.addr, true
	}
	return addr, false
}

// resolve returns the address of a name, or the host's answer why there is none. Simultaneous questions for one name are sent as
// one.
func (r *Relay) resolve(text string) (netip.Addr, wire.Answer, error) {
	q, ask, err := r.question(text)
	if err != nil {
		return netip.Addr{}, wire.Answer{}, err
	}
	if ask != nil {
		ask()
	}
	<-q.done
	if q.err != nil || !q.answer.OK {
		return netip.Addr{}, q.answer, q.err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.names[text].addr, q.answer, nil
}

// question returns the pending question for a name. If it is new, the caller sends it by calling ask, which is nil otherwise.
func (r *Relay) question(text string) (q *question, ask func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.link == nil {
		return nil, nil, errNoRelay
	}
	if q := r.asked[text]; q != nil {
		return q, nil, nil
	}
	if len(r.asked) >= wire.MaxAsked {
		return nil, nil, errManyAsked
	}
	r.lastID++
	id, l := r.lastID, r.link
	q = &question{name: text, done: make(chan struct{})}
	r.asked[text], r.questions[id] = q, q
	return q, func() { l.ask(wire.Ask{ID: id, Name: text}) }, nil
}

// ask sends a question. If that fails, so does the link, and with it the question.
func (l *link) ask(a wire.Ask) {
	if err := l.w.JSON(wire.KindReply, wire.Reply{Ask: &a}); err != nil {
		l.close()
	}
}

// place gives a name its address. The caller holds mu.
func (r *Relay) place(text string) error {
	n := r.names[text]
	if n == nil {
		if len(r.names) >= wire.MaxNames {
			return errManyNames
		}
		n = &name{text: text, addr: nameAddr(len(r.names)), listeners: map[uint16]net.Listener{}}
	}
	if err := r.serve(n); err != nil {
		if r.names[text] == nil { // the next name gets the address
			n.close()
		}
		return err
	}
	r.names[text] = n
	n.asked = time.Now()
	return nil
}

// close closes the listeners of a name.
func (n *name) close() {
	for _, l := range n.listeners {
		l.Close()
	}
}

// nameAddr returns the address of the nth name.
func nameAddr(n int) netip.Addr {
	first := netip.MustParseAddr(wire.FirstName).As4()
	at := int(first[2])<<8 + int(first[3]) + n
	return netip.AddrFrom4([4]byte{first[0], first[1], byte(at >> 8), byte(at)})
}

// serve makes the missing listeners of a name. A program may have bound a port at all addresses; it is an error only if every
// port is taken.
func (r *Relay) serve(n *name) error {
	for _, port := range r.ports {
		if n.listeners[port] != nil {
			continue
		}
		l, err := confine.ListenTCP(n.addr.AsSlice(), int(port))
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		if err != nil {
			return fmt.Errorf("listen for %s: %w", n.text, err)
		}
		n.listeners[port] = l
		r.all.Go(func() {
			r.acceptAll(l, func(c *net.TCPConn) {
				r.open(&conn{tcp: c}, wire.Open{Host: n.text, Port: port, Via: wire.ViaAddress})
			})
		})
	}
	if len(n.listeners) == 0 && len(r.ports) > 0 {
		return errBusyPorts
	}
	return nil
}

// setPorts closes the listeners on other ports. Listeners on new ports are made when a name is asked for again. The caller holds
// mu.
func (r *Relay) setPorts(ports []uint16) {
	r.ports = slices.Compact(slices.Sorted(slices.Values(ports)))
	for _, n := range r.names {
		for port, l := range n.listeners {
			if !slices.Contains(r.ports, port) {
				l.Close()
				delete(n.listeners, port)
			}
		}
	}
}
