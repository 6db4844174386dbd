package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/belljar/belljar"
)

// helloOf returns the first bytes of a real client.
func helloOf(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	a, b := net.Pipe()
	defer b.Close()
	go func() {
		_ = tls.Client(a, config).HandshakeContext(context.Background())
		a.Close()
	}()
	header := make([]byte, 5)
	if _, err := io.ReadFull(b, header); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint16(header[3:]))
	if _, err := io.ReadFull(b, body); err != nil {
		t.Fatal(err)
	}
	return append(header, body...)
}

// records splits a handshake message into records of at most size bytes.
func records(message []byte, size int) []byte {
	var out []byte
	for len(message) > 0 {
		n := min(size, len(message))
		out = append(out, 22, 3, 1, byte(n>>8), byte(n))
		out = append(out, message[:n]...)
		message = message[n:]
	}
	return out
}

// extension is one of a ClientHello made by hand.
func extension(kind int, data []byte) []byte {
	return append([]byte{byte(kind >> 8), byte(kind), byte(len(data) >> 8), byte(len(data))}, data...)
}

// names is the data of a server_name extension.
func names(list ...string) []byte {
	var entries []byte
	for _, name := range list {
		entries = append(entries, 0, byte(len(name)>>8), byte(len(name)))
		entries = append(entries, name...)
	}
	return append([]byte{byte(len(entries) >> 8), byte(len(entries))}, entries...)
}

// message is a ClientHello made by hand.
func message(extensions ...[]byte) []byte {
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0, 0, 2, 0x13, 1, 1, 0)
	all := bytes.Join(extensions, nil)
	body = append(body, byte(len(all)>>8), byte(len(all)))
	body = append(body, all...)
	return append([]byte{1, byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}, body...)
}

func TestReadHello(t *testing.T) {
	plain := helloOf(t, &tls.Config{ServerName: "a.example.com"})
	old := helloOf(t, &tls.Config{ServerName: "a.example.com", MaxVersion: tls.VersionTLS12, CurvePreferences: []tls.CurveID{tls.X25519}})
	large := helloOf(t, &tls.Config{ServerName: "a.example.com", NextProtos: strings.Split(strings.Repeat("protocol,", 200), ",")[:200]})
	without := helloOf(t, &tls.Config{InsecureSkipVerify: true})
	if len(plain) < 1500 || len(large) < 3000 || len(old) > 1000 {
		t.Fatalf("hellos of %d, %d and %d bytes: want one that is longer than a packet", len(plain), len(large), len(old))
	}
	pad := extension(21, make([]byte, 6000))
	for _, tt := range []struct {
		name string
		raw  []byte
		want string
		err  error
	}{
		{"plain", plain, "a.example.com", nil},
		{"TLS 1.2", old, "a.example.com", nil},
		{"large", large, "a.example.com", nil},
		{"no name", without, "", nil},
		{"a record for each byte", records(plain[5:], 1), "a.example.com", nil},
		{"records of 3", records(large[5:], 3), "a.example.com", nil},
		{"records of 1000", records(large[5:], 1000), "a.example.com", nil},
		{"by hand", records(message(extension(0, names("a.example.com"))), 1<<14), "a.example.com", nil},
		{"late, at byte 6000", records(message(pad, extension(0, names("a.example.com"))), 1<<14), "a.example.com", nil},
		{"late, after an encrypted one", records(message(extension(0xfe0d, make([]byte, 300)), extension(0, names("a.example.com"))), 1<<14), "a.example.com", nil},
		{"no extensions", records([]byte{1, 0, 0, 41, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 47, 1, 0}, 100), "", nil},
		{"two names", records(message(extension(0, names("a.example.com", "b.example.com"))), 1<<14), "", errTwoNames},
		{"the name twice", records(message(extension(0, names("a.example.com", "a.example.com"))), 1<<14), "", errTwoNames},
		{"two extensions", records(message(extension(0, names("a.example.com")), pad, extension(0, names("b.example.com"))), 1<<14), "", errTwoNames},
		{"no names in it", records(message(extension(0, names())), 1<<14), "", errNotHello},
		{"an empty name", records(message(extension(0, names(""))), 1<<14), "", errNotHello},
		{"another kind of name", records(message(extension(0, []byte{0, 5, 1, 0, 2, 'a', 'b'})), 1<<14), "", errNotHello},
		{"bytes after the names", records(message(extension(0, append(names("a.example.com"), 0))), 1<<14), "", errNotHello},
		{"a list that is too long", records(message(extension(0, []byte{0, 9, 0, 0, 2, 'a', 'b'})), 1<<14), "", errNotHello},
		{"an extension that is too long", records(message([]byte{0, 0, 0, 9, 0}), 1<<14), "", errNotHello},
		{"a second message", records(append(message(extension(0, names("a.example.com"))), message(extension(0, names("b.example.com")))...), 1<<14), "", errNotHello},
		{"too large", records(message(extension(21, make([]byte, 1<<14))), 1<<13), "", errNotHello},
		{"a size that never comes", records([]byte{1, 0xff, 0xff, 0xff, 3, 3}, 1<<14), "", errNotHello},
		{"another message", records([]byte{2, 0, 0, 0}, 1<<14), "", errNotHello},
		{"an empty record", append([]byte{22, 3, 1, 0, 0}, plain...), "", errNotHello},
		{"an alert", []byte{21, 3, 3, 0, 2, 2, 112}, "", errNotHello},
		{"another record in between", append(records(plain[5:], 100)[:105], 20, 3, 3, 0, 1, 1), "", errNotHello},
		{"SSL 2", []byte{0x80, 0x2e, 1, 3, 3, 0, 0x15}, "", errNotHello},
		{"HTTP", []byte("GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n"), "", errNotHello},
		{"CONNECT", []byte("CONNECT evil.org:443 HTTP/1.1\r\n\r\n"), "", errNotHello},
		{"SSH", []byte("SSH-2.0-x\r\n"), "", errNotHello},
		{"nothing", nil, "", io.EOF},
		{"a part", plain[:700], "", io.ErrUnexpectedEOF},
	} {
		for how, reader := range map[string]func(io.Reader) io.Reader{
			"": func(r io.Reader) io.Reader { return r }, ", a byte at a time": iotest.OneByteReader, ", by halves": iotest.HalfReader,
		} {
			rest := []byte("the rest")
			in := bytes.NewReader(append(bytes.Clone(tt.raw), rest...))
			if errors.Is(tt.err, io.EOF) || errors.Is(tt.err, io.ErrUnexpectedEOF) {
				in = bytes.NewReader(tt.raw)
			}
			raw, got, err := readHello(reader(in))
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%s%s: %q, %v; want %q, %v", tt.name, how, got, err, tt.want, tt.err)
			}
			if err == nil && (!bytes.Equal(raw, tt.raw) || in.Len() != len(rest)) {
				t.Errorf("%s%s: read %d bytes, left %d; want %d, %d", tt.name, how, len(raw), in.Len(), len(tt.raw), len(rest))
			}
			if !bytes.HasPrefix(append(bytes.Clone(tt.raw), rest...), raw) {
				t.Errorf("%s%s: the bytes that it read are not those that were sent", tt.name, how)
			}
		}
	}
}

// chopped writes a few bytes at a time, in TLS records of a few bytes if it is the first write.
type chopped struct {
	net.Conn
	record, write int
	later         bool
}

func (c *chopped) Write(p []byte) (int, error) {
	out := p
	if !c.later && c.record > 0 {
		out = records(p[5:], c.record)
	}
	c.later = true
	for len(out) > 0 {
		n := min(c.write, len(out))
		if _, err := c.Conn.Write(out[:n]); err != nil {
			return 0, err
		}
		out = out[n:]
	}
	return len(p), nil
}

func TestTLS(t *testing.T) {
	certificate := selfSigned(t)
	w := newWorld(t, nil)
	server := &tls.Config{Certificates: []tls.Certificate{certificate}}
	w.peer("a.example.com", public, 443, func(c net.Conn) {
		s := tls.Server(c, server)
		defer s.Close()
		echo(s)
	})
	for _, tt := range []struct {
		name    string
		sni     string
		version uint16
		chop    chopped
		reason  Reason
	}{
		{"plain", "a.example.com", 0, chopped{write: 1 << 20}, ""},
		{"TLS 1.2", "a.example.com", tls.VersionTLS12, chopped{write: 1 << 20}, ""},
		{"upper case", "A.Example.COM", 0, chopped{write: 1 << 20}, ""},
		{"byte by byte", "a.example.com", 0, chopped{write: 1}, ""},
		{"in records of 40", "a.example.com", 0, chopped{record: 40, write: 7}, ""},
		{"no name", "", 0, chopped{write: 1 << 20}, SNIMissing},
		{"another name", "b.example.com", 0, chopped{write: 1 << 20}, DNSMismatch},
		{"another name in records", "b.example.com", 0, chopped{record: 20, write: 1 << 20}, DNSMismatch},
		{"a longer name", "a.example.com.evil.org", 0, chopped{write: 1 << 20}, DNSMismatch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := w.gate.Mark()
			c := w.connect("a.example.com", 443)
			_ = c.SetDeadline(time.Now().Add(patience))
			tt.chop.Conn = c
			client := tls.Client(&tt.chop, &tls.Config{ServerName: tt.sni, InsecureSkipVerify: true, MaxVersion: tt.version})
			err := client.Handshake()
			if tt.reason != "" {
				if alert := tls.AlertError(112); !errors.As(err, &alert) && !strings.Contains(err.Error(), "unrecognized name") {
					t.Errorf("the client saw %v", err)
				}
				_ = c.Close() // the gate waits for it
				w.wait("the denial", func() bool { return w.gate.Since(before).Denied > 0 })
				if r := w.gate.Since(before); r.Allowed != 0 || r.Denied != 1 || r.BytesOut != 0 || !slices.ContainsFunc(r.Hosts, func(h belljar.EgressHost) bool { return h.Reason == string(tt.reason) }) {
					t.Errorf("report %+v", r)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			write(t, client, "hello")
			got := make([]byte, 5)
			if _, err := io.ReadFull(client, got); err != nil || string(got) != "hello" {
				t.Errorf("read %q, %v", got, err)
			}
		})
	}
}

// Traffic that is not TLS does not pass on port 443, not even CONNECT in CONNECT. An address has no name to compare
// with.
func TestPort443(t *testing.T) {
	got := make(chan string, 1)
	w := newWorld(t, func(o *Options) { o.Policy = policyOf(t, "a.example.com", "203.0.113.0/24") })
	w.peer("a.example.com", public, 443, func(c net.Conn) {
		b, _ := io.ReadAll(c)
		got <- string(b)
	})
	for _, text := range []string{"CONNECT evil.org:443 HTTP/1.1\r\nHost: evil.org\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n", "SSH-2.0-OpenSSH\r\n"} {
		c := w.connect("a.example.com", 443)
		write(t, c, text)
		if answer, _ := readAll(t, c); answer != "" {
			t.Errorf("%q was answered %q", text, answer)
		}
		if b := <-got; b != "" {
			t.Errorf("%q arrived", b)
		}
		w.denied("a.example.com", SNIMissing)
	}
	unused := w.connect("a.example.com", 443)
	before := w.gate.Mark()
	unused.Close() // not a denial
	if b := <-got; b != "" {
		t.Errorf("%q arrived", b)
	}
	w.wait("the end", func() bool { w.gate.mu.Lock(); defer w.gate.mu.Unlock(); return len(w.gate.live) == 0 })
	if r := w.gate.Since(before); r.Denied != 0 {
		t.Errorf("a connection that was not used: %+v", r)
	}
	c := w.connect(public.String(), 443)
	write(t, c, "anything")
	_ = c.CloseWrite()
	if b := <-got; b != "anything" {
		t.Errorf("the address got %q", b)
	}
}

// A missing ClientHello ends the connection, however slowly its bytes arrive.
func TestSlowHello(t *testing.T) {
	hello := helloOf(t, &tls.Config{ServerName: "a.example.com"})
	drip := func(c net.Conn) {
		for _, b := range hello {
			if _, err := c.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(time.Second) // of the bubble's clock
		}
	}
	for name, send := range map[string]struct {
		do   func(net.Conn)
		took time.Duration
	}{
		"silence":   {func(net.Conn) {}, usual.first},
		"a start":   {func(c net.Conn) { _, _ = c.Write(hello[:100]) }, usual.head},
		"slow drip": {drip, usual.head},
		"late drip": {func(c net.Conn) { time.Sleep(usual.first - time.Second); drip(c) }, usual.first - time.Second + usual.head},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewGate(Options{Policy: policyOf(t, "a.example.com"), Own: noOwn})
				c := &conn{gate: g, host: "a.example.com", port: 443, row: new(row)}
				c.ctx, c.cancel = context.WithCancelCause(t.Context())
				program, stream := net.Pipe()
				target, peer := net.Pipe()
				defer peer.Close()
				defer target.Close()
				start := time.Now()
				dripped := make(chan struct{})
				go func() { send.do(program); close(dripped) }()
				reason := c.carryTLS(whole{stream}, target)
				if took := time.Since(start); reason != SNIMissing || took != send.took {
					t.Errorf("%q after %v", reason, took)
				}
				stream.Close()
				program.Close()
				<-dripped
			})
		})
	}
}

// whole is a connection that treats a half close as a close.
type whole struct{ net.Conn }

func (w whole) CloseWrite() error { return w.Close() }
