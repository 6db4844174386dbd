//go:build linux

package relay

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/belljar/belljar/internal/agent/wire"
)

// ask returns a query like a resolver's.
func ask(t testing.TB, name string, kind dnsmessage.Type, edns bool) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}},
	}
	if edns {
		var head dnsmessage.ResourceHeader
		if err := head.SetEDNS0(1232, 0, false); err != nil {
			t.Fatal(err)
		}
		m.Additionals = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.OPTResource{}}}
	}
	raw, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// A program that sends queries but does not read the answers does not block the resolver for long.
func TestDeafCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, program := net.Pipe()
		defer program.Close()
		defer c.Close()
		q := ask(t, "a.example.", dnsmessage.TypeTXT, false)
		go func() { _, _ = program.Write(append([]byte{0, byte(len(q))}, q...)) }()
		New().resolveCall(c)
	})
}

func TestReply(t *testing.T) {
	addr := netip.MustParseAddr("127.64.0.9")
	ok, denied, missing := wire.Answer{OK: true}, wire.Answer{Reason: "no_match"}, wire.Answer{Reason: wire.DNSFailed, Missing: true}
	const a, aaaa, txt, https = dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypeTXT, dnsmessage.Type(65)
	for name, c := range map[string]struct {
		name   string
		kind   dnsmessage.Type
		edns   bool
		addr   netip.Addr
		answer wire.Answer
		err    error
		asks   bool
		rcode  dnsmessage.RCode
		has    bool   // an address
		blame  string // code and text of the extended error
	}{
		"allowed":        {"API.example.com.", a, false, addr, ok, nil, true, 0, true, ""},
		"allowed, EDNS":  {"api.example.com.", a, true, addr, ok, nil, true, 0, true, ""},
		"IPv6":           {"api.example.com.", aaaa, true, addr, ok, nil, true, 0, false, ""},
		"denied":         {"api.example.com.", a, true, netip.Addr{}, denied, nil, true, dnsmessage.RCodeNameError, false, "\x00\x0fno_match"},
		"denied IPv6":    {"api.example.com.", aaaa, false, netip.Addr{}, denied, nil, true, dnsmessage.RCodeNameError, false, ""},
		"missing":        {"api.example.com.", a, true, netip.Addr{}, missing, nil, true, dnsmessage.RCodeNameError, false, ""},
		"not found now":  {"api.example.com.", a, true, netip.Addr{}, wire.Answer{Reason: wire.DNSFailed}, nil, true, dnsmessage.RCodeServerFailure, false, "\x00\x00dns_failed"},
		"no relay":       {"api.example.com.", a, true, netip.Addr{}, wire.Answer{}, errNoRelay, true, dnsmessage.RCodeServerFailure, false, "\x00\x00no relay"},
		"too many names": {"api.example.com.", a, true, netip.Addr{}, ok, errManyNames, true, dnsmessage.RCodeNameError, false, "\x00\x00too many names"},
		"text":           {"api.example.com.", txt, true, netip.Addr{}, wire.Answer{}, nil, false, 0, false, ""},
		"https":          {"api.example.com.", https, false, netip.Addr{}, wire.Answer{}, nil, false, 0, false, ""},
		"any":            {"api.example.com.", dnsmessage.TypeALL, false, netip.Addr{}, wire.Answer{}, nil, false, 0, false, ""},
		"no host name":   {"a b.", a, true, netip.Addr{}, wire.Answer{}, nil, false, dnsmessage.RCodeNameError, false, "\x00\x00not a host name"},
		"the root":       {".", a, false, netip.Addr{}, wire.Answer{}, nil, false, dnsmessage.RCodeNameError, false, ""},
	} {
		q, parsed := parseQuery(ask(t, c.name, c.kind, c.edns))
		if !parsed || q.asks() != c.asks || c.asks && q.name != "api.example.com" {
			t.Errorf("%s: parsed %v, asks %v for %q", name, parsed, q.asks(), q.name)
			continue
		}
		var m dnsmessage.Message
		if err := m.Unpack(q.reply(c.addr, c.answer, c.err)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if m.ID != 7 || !m.Response || !m.RecursionDesired || m.RCode != c.rcode || len(m.Questions) != 1 || m.Questions[0].Name.String() != c.name {
			t.Errorf("%s: %+v", name, m)
		}
		if len(m.Answers) == 1 != c.has || c.has && m.Answers[0].Body.(*dnsmessage.AResource).A != c.addr.As4() {
			t.Errorf("%s: %+v", name, m.Answers)
		}
		var blame string
		if len(m.Additionals) == 1 != c.edns {
			t.Errorf("%s: EDNS: %+v", name, m.Additionals)
		} else if c.edns {
			for _, o := range m.Additionals[0].Body.(*dnsmessage.OPTResource).Options {
				blame += string(o.Data)
			}
		}
		if blame != c.blame {
			t.Errorf("%s: extended error %q, want %q", name, blame, c.blame)
		}
	}
}

func TestOddQueries(t *testing.T) {
	good := ask(t, "a.example.", dnsmessage.TypeA, false)
	with := func(at int, b byte) []byte {
		raw := bytes.Clone(good)
		raw[at] = b
		return raw
	}
	for name, c := range map[string]struct {
		raw   []byte
		ok    bool
		rcode dnsmessage.RCode
	}{
		"nothing":       {nil, false, 0},
		"a response":    {with(2, 0x80), false, 0},
		"an update":     {with(2, 5<<3), true, dnsmessage.RCodeNotImplemented},
		"no question":   {good[:12], true, dnsmessage.RCodeFormatError},
		"two questions": {with(5, 2), true, dnsmessage.RCodeFormatError},
		"another class": {with(len(good)-1, 3), true, dnsmessage.RCodeRefused},
		"a loop":        {append(append(bytes.Clone(good[:12]), 0xc0, 12), good[len(good)-4:]...), true, dnsmessage.RCodeFormatError},
	} {
		q, ok := parseQuery(c.raw)
		if ok != c.ok || q.rcode != c.rcode || q.asks() && c.rcode != 0 {
			t.Errorf("%s: %+v, %v", name, q, ok)
		}
		if ok && q.reply(netip.Addr{}, wire.Answer{}, nil) == nil {
			t.Errorf("%s: no reply", name)
		}
	}
}

func FuzzQuery(f *testing.F) {
	f.Add(ask(f, "api.example.com.", dnsmessage.TypeA, true))
	f.Add(ask(f, "x.", dnsmessage.TypeAAAA, false))
	f.Add(ask(f, ".", dnsmessage.TypeALL, true))
	f.Fuzz(func(t *testing.T, raw []byte) {
		q, ok := parseQuery(raw)
		if !ok {
			return
		}
		if q.name != "" && (!isName(q.name) || len(q.name) > 253) {
			t.Fatalf("%q", q.name)
		}
		reply := q.reply(netip.MustParseAddr("127.64.0.2"), wire.Answer{OK: true}, nil)
		if reply == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(reply); err != nil || m.ID != q.id || !m.Response || len(m.Answers) > 1 || len(reply) > 600 {
			t.Fatalf("%+v, %v", m, err)
		}
	})
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "a-b.example": true, "_dns.example": true, "1.2.3.4": true, strings.Repeat("a.", 126) + "a": true,
		"": false, ".": false, "a.": false, ".a": false, "a..b": false, "A": false, "a b": false, "a\x00b": false, "é": false,
		strings.Repeat("a.", 126) + "ab": false,
	} {
		if isName(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
	for n, want := range map[int]string{0: "127.64.0.2", 253: "127.64.0.255", 254: "127.64.1.0", wire.MaxNames - 1: "127.64.1.1"} {
		if got := nameAddr(n).String(); got != want {
			t.Errorf("name %d at %s, want %s", n, got, want)
		}
	}
}

// shake performs the front's handshake for a program's bytes.
func shake(sent string) (to wire.Open, c conn, refusal []byte, request string) {
	var out bytes.Buffer
	to, refusal = handshake(bufio.NewReaderSize(strings.NewReader(sent), maxHead), &out, &c)
	return to, c, refusal, out.String()
}

func TestHandshake(t *testing.T) {
	const socks = "\x05\x01\x00\x05\x01\x00"
	for sent, want := range map[string]wire.Open{
		"CONNECT api.example.com:443 HTTP/1.1\r\nHost: other\r\n\r\n":   {Host: "api.example.com", Port: 443, Via: wire.ViaConnect},
		"CONNECT API.Example.com.:443 HTTP/1.0\r\n\r\n":                 {Host: "api.example.com", Port: 443, Via: wire.ViaConnect},
		"CONNECT 192.0.2.1:80 HTTP/1.1\r\n\r\n":                         {Host: "192.0.2.1", Port: 80, Via: wire.ViaConnect},
		"CONNECT [2001:DB8::1]:80 HTTP/1.1\r\n\r\n":                     {Host: "2001:db8::1", Port: 80, Via: wire.ViaConnect},
		socks + "\x03\x0fapi.example.com\x01\xbb":                       {Host: "api.example.com", Port: 443, Via: wire.ViaSocks},
		socks + "\x01\xc0\x00\x02\x01\x00\x50":                          {Host: "192.0.2.1", Port: 80, Via: wire.ViaSocks},
		"\x05\x02\x02\x00" + socks[3:] + "\x01\xc0\x00\x02\x01\x00\x50": {Host: "192.0.2.1", Port: 80, Via: wire.ViaSocks},
	} {
		to, c, refusal, _ := shake(sent)
		if to != want || refusal != nil || len(c.granted) == 0 || c.refuse == nil {
			t.Errorf("%q: %+v, refused with %q", sent, to, refusal)
		}
	}
	for sent, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n":                          "HTTP/1.1 501 ",
		"POST http://a.example/ HTTP/1.1\r\n\r\n":                    "HTTP/1.1 501 ",
		"CONNECT a.example HTTP/1.1\r\n\r\n":                         "HTTP/1.1 400 ",
		"CONNECT a.example:99999 HTTP/1.1\r\n\r\n":                   "HTTP/1.1 400 ",
		"CONNECT a.example:+80 HTTP/1.1\r\n\r\n":                     "HTTP/1.1 400 ",
		"CONNECT a.example:443 HTTP/2\r\n\r\n":                       "HTTP/1.1 400 ",
		"CONNECT a.example:443 x HTTP/1.1\r\n\r\n":                   "HTTP/1.1 400 ",
		"CONNECT evil.example\x00.a.example:443 HTTP/1.1\r\n\r\n":    "HTTP/1.1 400 ",
		"CONNECT evil%2eexample:443 HTTP/1.1\r\n\r\n":                "HTTP/1.1 400 ",
		"CONNECT [fe80::1%25lo]:443 HTTP/1.1\r\n\r\n":                "HTTP/1.1 400 ",
		"CONNECT a.example:443 HTTP/1.1\n\n":                         "HTTP/1.1 400 ",
		"CONNECT a.example:443 HTTP/1.1\r\nx: a\rb\r\n\r\n":          "HTTP/1.1 400 ",
		"CONNECT a.example:443 HTTP/1.1\r\n":                         "HTTP/1.1 400 ",
		"\r\n\r\n":                                                   "HTTP/1.1 400 ",
		"x: " + strings.Repeat("x", 9000):                            "HTTP/1.1 400 ",
		strings.Repeat("x: x\r\n", 2000):                             "HTTP/1.1 400 ",
		"\x16\x03\x01 a ClientHello":                                 "HTTP/1.1 400 ",
		"\x04\x01\x00\x50\xc0\x00\x02\x01\x00":                       "\x00\x5b",
		"\x05\x01\x02":                                               "\x05\xff", // password authentication
		"\x05\x00":                                                   "\x05\xff",
		socks[:4] + "\x02\x00\x01\xc0\x00\x02\x01\x00\x50":           "\x05\x07", // BIND
		socks[:4] + "\x03\x00\x01\xc0\x00\x02\x01\x00\x50":           "\x05\x07", // UDP ASSOCIATE
		socks + "\x01\xc0\x00\x02\x01\x00\x00":                       "\x05\x08", // port 0
		socks + "\x02\xc0\x00\x02\x01\x00\x50":                       "\x05\x08",
		socks + "\x03\x00\x00\x50":                                   "\x05\x08",
		socks + "\x03\x15evil.example\x00.a.example\x00\x50":         "\x05\x08",
		socks + "\x03\x0ba.example\r\n\x00\x50":                      "\x05\x08",
		socks + "\x03\xff" + strings.Repeat("a.", 127) + "a\x00\x50": "\x05\x08",
		"":                             "",
		"\x05\x01\x00\x04\x01\x00\x01": "",
		"\x05\x03\x00":                 "",
		socks + "\x01\xc0\x00\x02\x01": "",
	} {
		if to, _, refusal, _ := shake(sent); refusal == nil || !strings.HasPrefix(string(refusal), want) || want == "" && len(refusal) != 0 {
			t.Errorf("%.40q: refused with %.60q, want %q; %+v", sent, refusal, want, to)
		}
	}
	to, c, _, _ := shake("CONNECT a.example:443 HTTP/1.1\r\n\r\n")
	for want, a := range map[string]wire.Answer{
		"HTTP/1.1 403 ": {Reason: "no_match"}, "HTTP/1.1 502 ": {OK: true, Reason: "connection refused"},
	} {
		if got := string(c.refuse(a)); !strings.HasPrefix(got, want) || !strings.Contains(got, to.Host) || !strings.Contains(got, a.Reason) {
			t.Errorf("%+v: %q", a, got)
		}
	}
}

func FuzzFront(f *testing.F) {
	f.Add([]byte("CONNECT api.example.com:443 HTTP/1.1\r\nHost: a\r\n\r\nearly"))
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x03\x09a.example\x01\xbb"))
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x04" + strings.Repeat("\x20", 16) + "\x01\xbb"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		var c conn
		to, refusal := handshake(bufio.NewReaderSize(bytes.NewReader(sent), maxHead), io.Discard, &c)
		if refusal != nil {
			return
		}
		if _, err := netip.ParseAddr(to.Host); err != nil && !isName(to.Host) || to.Port == 0 || c.granted == nil || c.refuse == nil {
			t.Fatalf("%+v", to)
		}
	})
}
