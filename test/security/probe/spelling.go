//go:build linux

package main

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// spellings requests other hosts in ways that two parsers may read differently: through the front, and by
// DNS.
func spellings(r *report, _ []string) {
	reach(r, []string{"api.test"})
	r.frontWorks()
	for _, name := range []string{
		"other.test\x00.wild.test", "other.test\x00api.test", "api.test\x00.other.test", "other.test\r\n.wild.test", "other.test\n.wild.test",
		"other.test%2ewild.test", "api%2etest", "other.test/.wild.test", "other.test#.wild.test", "other.test\\.wild.test", "user@other.test",
		"OTHER.TEST", "other.test.", ".wild.test", "..wild.test", "-a.wild.test", "a_b.wild.test", " api.test", "api.test ",
		"\u0430pi.test", "api\u3002test", "\uff41pi.test", strings.Repeat("a", 64) + ".wild.test", strings.Repeat("a.", 123) + "wild.test",
	} {
		for _, port := range []string{"80", "443"} {
			r.noWay(name+":"+port, fronts())
		}
	}
	r.noWay(strings.Repeat("a.", 150)+"wild.test:80", map[string]func(string) (net.Conn, error){"CONNECT": connectWay})
	for _, labels := range [][]string{
		{"other\x00", "wild", "test"}, {"other.test\x00", "wild", "test"}, {"a.b", "wild", "test"}, {"other.test", "wild", "test"}, {"OTHER", "test"},
		{"a b", "wild", "test"}, {"\xff\xfe", "wild", "test"}, {strings.Repeat("a", 63), strings.Repeat("b", 63), strings.Repeat("c", 63), strings.Repeat("d", 52), "wild", "test"},
	} {
		r.noAnswer(labels, dnsmessage.TypeA)
	}
}

// noAnswer checks that the sandbox's resolver immediately answers that a name has no record of a type.
func (r *report) noAnswer(labels []string, kind dnsmessage.Type) {
	what := fmt.Sprintf("query %d for %q", kind, labels)
	c, err := net.Dial("udp", "127.0.0.53:53")
	if err != nil {
		r.breach("control: %s: %v", what, err)
		return
	}
	defer c.Close()
	raw := []byte{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for _, label := range labels {
		raw = append(append(raw, byte(len(label))), label...)
	}
	raw = binary.BigEndian.AppendUint16(append(raw, 0), uint16(kind))
	raw = binary.BigEndian.AppendUint16(raw, uint16(dnsmessage.ClassINET))
	buf := make([]byte, 4096)
	_ = c.SetDeadline(time.Now().Add(patience))
	_, err = c.Write(raw)
	n := 0
	if err == nil {
		n, err = c.Read(buf)
	}
	if err != nil {
		r.breach("%s: %v", what, err)
		return
	}
	if answers := binary.BigEndian.Uint16(buf[6:]); n < 12 || answers != 0 {
		r.breach("%s: %d answers in %d bytes", what, answers, n)
		return
	}
	fmt.Printf("%s: no answer, code %d\n", what, buf[3]&15)
}

// records queries types other than addresses: none may leave the sandbox.
func (r *report) records(parent string) {
	for _, kind := range []dnsmessage.Type{dnsmessage.TypeTXT, dnsmessage.TypeMX, dnsmessage.TypeNS, dnsmessage.TypeCNAME, dnsmessage.TypeSRV, 10, 64, 65, 255} {
		r.noAnswer(append([]string{"text-" + rand.Text()}, strings.Split(parent, ".")...), kind)
	}
}

// extended returns a ClientHello with more extensions in front of its own.
func extended(raw []byte, more ...[]byte) []byte {
	message := append([]byte(nil), raw[5:]...)
	at := 4 + 2 + 32
	at += 1 + int(message[at])                           // the session id
	at += 2 + int(binary.BigEndian.Uint16(message[at:])) // the cipher suites
	at += 1 + int(message[at])                           // the compression methods
	size := binary.BigEndian.Uint16(message[at:])        // length of all extensions
	tail := append([]byte(nil), message[at+2:at+2+int(size)]...)
	message = message[:at]
	var all []byte
	for _, e := range more {
		all = append(all, e...)
	}
	all = append(all, tail...)
	message = append(binary.BigEndian.AppendUint16(message, uint16(len(all))), all...)
	n := len(message) - 4
	message[1], message[2], message[3] = byte(n>>16), byte(n>>8), byte(n)
	return append([]byte{raw[0], raw[1], raw[2], byte(len(message) >> 8), byte(len(message))}, message...)
}

func extension(kind uint16, content []byte) []byte {
	out := binary.BigEndian.AppendUint16(nil, kind)
	return append(binary.BigEndian.AppendUint16(out, uint16(len(content))), content...)
}

// named returns an extension that names servers.
func named(names ...string) []byte {
	var list []byte
	for _, name := range names {
		list = append(binary.BigEndian.AppendUint16(append(list, 0), uint16(len(name))), name...)
	}
	return extension(0, append(binary.BigEndian.AppendUint16(nil, uint16(len(list))), list...))
}

// hiddenServers names another server late, twice, together with an encrypted hello, or within a way of the
// front.
func hiddenServers(r *report, other string) {
	const whole = 16 << 10
	pad, encrypted := extension(21, make([]byte, 6000)), extension(0xfe0d, make([]byte, 300))
	right, wrong := hello("api.test"), hello(other)
	r.works("the right name after 6,000 bytes", handshake(extended(right, pad), whole))
	none := hello("")
	for what, raw := range map[string][]byte{
		"after 6,000 bytes":               extended(wrong, pad),
		"outside of an encrypted hello":   extended(wrong, encrypted),
		"only in an encrypted hello":      extended(none, encrypted),
		"in front of the right one":       extended(right, named(other)),
		"in one list with the right one":  extended(none, named("api.test", other)),
		"after the right one":             extended(wrong, named("api.test"), pad),
		"with a NUL":                      extended(none, named(other+"\x00.api.test")),
		"with a NUL, the right one first": extended(none, named("api.test\x00."+other)),
	} {
		r.deniedSoon(fmt.Sprintf("the name %s %s", other, what), handshake(raw, whole))
	}
	for name, way := range fronts() {
		for _, server := range []string{"api.test", other} {
			c, err := way("api.test:443")
			if err != nil {
				r.works(name, err)
				continue
			}
			err = shake(c, hello(server), whole)
			c.Close()
			if server == other {
				r.deniedSoon("the name "+other+" by "+name, err)
			} else {
				r.works("the right name by "+name, err)
			}
		}
	}
}

// slow sends endless requests and ClientHellos. The host must end each after a few bytes.
func slow(r *report, _ []string) {
	reach(r, []string{"api.test"})
	const most = 16 << 20 // including the buffers of the sockets on the way
	endless := func(at, begin, more string, pause time.Duration) error {
		c, err := net.DialTimeout("tcp", at, patience)
		if err != nil {
			return err
		}
		defer c.Close()
		ended := make(chan struct{})
		go func() { // reads the response, or the end
			defer close(ended)
			_, _ = io.Copy(io.Discard, c)
		}()
		_ = c.SetDeadline(time.Now().Add(patience))
		_, err = io.WriteString(c, begin)
		for sent := 0; err == nil && sent < most; sent += len(more) {
			select {
			case <-ended:
				return errors.New("it was ended")
			case <-time.After(pause):
			}
			_, err = io.WriteString(c, more)
		}
		return err
	}
	half := hello("api.test")
	var all sync.WaitGroup
	var mu sync.Mutex
	for what, do := range map[string]func() error{
		"a head without an end": func() error {
			return endless("api.test:80", "GET / HTTP/1.1\r\nHost: api.test\r\n", "X-"+strings.Repeat("x", 40)+": "+strings.Repeat("y", 900)+"\r\n", 0)
		},
		"a line without an end": func() error { return endless("api.test:80", "GET /", strings.Repeat("x", 1000), 0) },
		"a slow head": func() error {
			return endless("api.test:80", "GET / HTTP/1.1\r\nHost: api.test\r\nX: ", "x", 200*time.Millisecond)
		},
		"a slow ClientHello": func() error {
			return endless("api.test:443", string(half[:9]), string(half[9:10]), 200*time.Millisecond)
		},
		"records without an end": func() error { return endless("api.test:443", "", "\x16\x03\x01\x00\x01\x01", 0) },
	} {
		all.Go(func() {
			err := do()
			mu.Lock()
			defer mu.Unlock()
			r.deniedSoon(what, err)
		})
	}
	all.Wait()
	reach(r, []string{"api.test"})
}
