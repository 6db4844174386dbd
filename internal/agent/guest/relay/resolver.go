//go:build linux

package relay

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/confine"
	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/wire"
)

// maxQuery is the maximum size of a query.
const maxQuery = 4 << 10

// callTime is how long a program's connection to the resolver or the front may take to send a question.
const callTime = 10 * time.Second

// listen binds the resolver and the front. The caller holds mu.
func (r *Relay) listen() error {
	ip := net.ParseIP(wire.ResolverAddr)
	var made []io.Closer
	fail := func(err error) error {
		for _, l := range made {
			l.Close()
		}
		if errors.Is(err, unix.EADDRINUSE) {
			return fault.New(wire.CodeExists, "a program in the sandbox has taken an address of the relay: %v", err)
		}
		return err
	}
	udp, err := confine.ListenUDP(ip, wire.ResolverPort)
	if err != nil {
		return fail(err)
	}
	made = append(made, udp)
	var tcp [2]*net.TCPListener
	for i, port := range []int{wire.ResolverPort, wire.FrontPort} {
		if tcp[i], err = confine.ListenTCP(ip, port); err != nil {
			return fail(err)
		}
		made = append(made, tcp[i])
	}
	r.listeners = made
	r.all.Go(func() { r.resolvePackets(udp) })
	r.all.Go(func() { r.resolveCalls(tcp[0]) })
	r.all.Go(func() { r.acceptAll(tcp[1], func(c *net.TCPConn) { r.all.Go(func() { r.front(c) }) }) })
	return nil
}

// resolvePackets answers queries by UDP.
func (r *Relay) resolvePackets(c *net.UDPConn) {
	buf := make([]byte, maxQuery)
	for {
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if err != nil {
			if errors.Is(err, net.ErrClosed) || !r.pause() {
				return
			}
			continue
		}
		q, ok := parseQuery(buf[:n])
		if !ok {
			continue
		}
		send := func(reply []byte) {
			if reply != nil {
				_, _ = c.WriteToUDPAddrPort(reply, from) // the program may have ended
			}
		}
		if reply, ok := r.quick(q); ok {
			send(reply)
			continue
		}
		select {
		case r.waiting <- struct{}{}:
			r.all.Go(func() {
				defer func() { <-r.waiting }()
				send(q.reply(r.resolve(q.name)))
			})
		default: // the program will retry
		}
	}
}

// resolveCalls answers queries by TCP.
func (r *Relay) resolveCalls(l *net.TCPListener) {
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || !r.pause() {
				return
			}
			continue
		}
		if !r.take(r.callers) {
			c.Close()
			return
		}
		r.all.Go(func() {
			defer func() { <-r.callers }()
			defer c.Close()
			r.resolveCall(c)
		})
	}
}

// resolveCall answers the queries of one connection.
func (r *Relay) resolveCall(c net.Conn) {
	buf := make([]byte, 2+maxQuery)
	for {
		_ = c.SetReadDeadline(time.Now().Add(callTime))
		if _, err := io.ReadFull(c, buf[:2]); err != nil {
			return
		}
		size := int(binary.BigEndian.Uint16(buf))
		if size > maxQuery {
			return
		}
		if _, err := io.ReadFull(c, buf[2:2+size]); err != nil {
			return
		}
		q, ok := parseQuery(buf[2 : 2+size])
		if !ok {
			return
		}
		reply, ok := r.quick(q)
		if !ok {
			reply = q.reply(r.resolve(q.name))
		}
		if reply == nil {
			return
		}
		_ = c.SetWriteDeadline(time.Now().Add(callTime))
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// quick returns the reply to a query that need not wait for the host.
func (r *Relay) quick(q query) ([]byte, bool) {
	if !q.asks() {
		return q.reply(netip.Addr{}, wire.Answer{}, nil), true
	}
	addr, ok := r.known(q.name)
	if !ok {
		return nil, false
	}
	return q.reply(addr, wire.Answer{OK: true}, nil), true
}

// query is a parsed query.
type query struct {
	id       uint16
	opCode   dnsmessage.OpCode
	recurse  bool
	question dnsmessage.Question
	name     string           // lower case, without the final dot; "" if it is not a host name
	rcode    dnsmessage.RCode // if the query is refused
	edns     bool
}

// parseQuery parses a query. ok is false if no reply is possible.
func parseQuery(raw []byte) (q query, ok bool) {
	var p dnsmessage.Parser
	head, err := p.Start(raw)
	if err != nil || head.Response {
		return q, false
	}
	q.id, q.opCode, q.recurse = head.ID, head.OpCode, head.RecursionDesired
	list, err := p.AllQuestions()
	switch {
	case err != nil || len(list) != 1:
		q.rcode = dnsmessage.RCodeFormatError
		return q, true
	case head.OpCode != 0:
		q.rcode = dnsmessage.RCodeNotImplemented
	case list[0].Class != dnsmessage.ClassINET:
		q.rcode = dnsmessage.RCodeRefused
	}
	q.question = list[0]
	if text := strings.ToLower(strings.TrimSuffix(q.question.Name.String(), ".")); isName(text) {
		q.name = text
	}
	q.edns = hasEDNS(&p)
	return q, true
}

// hasEDNS reports whether the rest of a query has an OPT record. An unreadable record counts as none.
func hasEDNS(p *dnsmessage.Parser) bool {
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return false
	}
	for {
		head, err := p.AdditionalHeader()
		if err != nil {
			return false
		}
		if head.Type == dnsmessage.TypeOPT {
			return true
		}
		if p.SkipAdditional() != nil {
			return false
		}
	}
}

// asks reports whether the host must be asked: for addresses only. Other records of a name are always empty.
func (q query) asks() bool {
	return q.rcode == 0 && q.name != "" && (q.question.Type == dnsmessage.TypeA || q.question.Type == dnsmessage.TypeAAAA)
}

// Extended errors, as in RFC 8914.
const (
	optionError  = 15
	errorOther   = 0
	errorBlocked = 15
)

// reply returns the reply to a query. If the query does not ask the host, the results of [Relay.resolve] are ignored. A denied
// name is reported as missing, because a resolver may retry other errors for seconds. The reply is nil if the question cannot be
// repeated.
func (q query) reply(addr netip.Addr, a wire.Answer, err error) []byte {
	rcode, code, text := q.rcode, -1, ""
	switch {
	case rcode != 0:
	case q.name == "" && (q.question.Type == dnsmessage.TypeA || q.question.Type == dnsmessage.TypeAAAA):
		rcode, code, text = dnsmessage.RCodeNameError, errorOther, "not a host name"
	case !q.asks():
	case errors.Is(err, errNoRelay), errors.Is(err, errManyAsked):
		rcode, code, text = dnsmessage.RCodeServerFailure, errorOther, err.Error()
	case err != nil:
		rcode, code, text = dnsmessage.RCodeNameError, errorOther, err.Error()
	case !addr.IsValid() && a.Missing:
		rcode = dnsmessage.RCodeNameError
	case !addr.IsValid() && a.Reason == wire.DNSFailed:
		rcode, code, text = dnsmessage.RCodeServerFailure, errorOther, a.Reason
	case !addr.IsValid():
		rcode, code, text = dnsmessage.RCodeNameError, errorBlocked, a.Reason
	}
	var fail error
	must := func(err error) { fail = cmp.Or(fail, err) }
	b := dnsmessage.NewBuilder(make([]byte, 0, 512), dnsmessage.Header{
		ID: q.id, Response: true, OpCode: q.opCode, RecursionDesired: q.recurse, RecursionAvailable: true, RCode: rcode,
	})
	if q.question.Name.Length > 0 {
		must(b.StartQuestions())
		must(b.Question(q.question))
	}
	if addr.IsValid() && q.question.Type == dnsmessage.TypeA {
		must(b.StartAnswers())
		must(b.AResource(dnsmessage.ResourceHeader{Name: q.question.Name, Class: dnsmessage.ClassINET, TTL: uint32(hold / time.Second)},
			dnsmessage.AResource{A: addr.As4()}))
	}
	if q.edns {
		var head dnsmessage.ResourceHeader
		must(head.SetEDNS0(maxQuery, rcode, false))
		var opt dnsmessage.OPTResource
		if code >= 0 {
			data := append(binary.BigEndian.AppendUint16(nil, uint16(code)), text[:min(len(text), 200)]...)
			opt.Options = []dnsmessage.Option{{Code: optionError, Data: data}}
		}
		must(b.StartAdditionals())
		must(b.OPTResource(head, opt))
	}
	reply, err := b.Finish()
	if cmp.Or(fail, err) != nil {
		return nil
	}
	return reply
}
