package egress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// maxHello is the maximum length of a ClientHello.
const maxHello = 16 << 10

var (
	errNotHello = errors.New("egress: no ClientHello")
	errTwoNames = errors.New("egress: a ClientHello with two names")
)

// alert is a fatal TLS alert, unrecognized_name: it ends a handshake immediately with an error that names the reason.
func alert() []byte { return []byte{21, 3, 3, 0, 2, 2, 112} }

// carryTLS carries a connection that begins with a ClientHello for the host.
func (c *conn) carryTLS(stream Stream, target net.Conn) Reason {
	_ = stream.SetReadDeadline(time.Now().Add(c.gate.waits.first))
	raw, err := readMore(stream, nil, 1)
	name := ""
	if err == nil {
		_ = stream.SetReadDeadline(time.Now().Add(c.gate.waits.head))
		raw, name, err = readHello(io.MultiReader(bytes.NewReader(raw), stream))
	}
	_ = stream.SetReadDeadline(time.Time{})
	switch {
	case err == nil && name == "", errors.Is(err, errNotHello):
		c.dismiss(stream, raw)
		return SNIMissing
	case errors.Is(err, errTwoNames):
		c.dismiss(stream, raw)
		return DNSMismatch
	case err != nil && len(raw) == 0 && !errors.Is(err, os.ErrDeadlineExceeded):
		c.allow("") // the program has closed the connection unused, but the host has seen it
		return ""
	case err != nil:
		return SNIMissing
	}
	if sni, err := canonical(name); err != nil || sni != c.host {
		c.dismiss(stream, raw)
		return DNSMismatch
	}
	if c.gate.opts.Broker.brokers(c.host) {
		return c.carryBrokered(stream, raw, target)
	}
	c.allow("")
	if _, err := target.Write(raw); err != nil {
		return ""
	}
	c.splice(stream, target)
	return ""
}

// dismiss ends a denied connection. A program that speaks TLS gets an alert, and time to read it.
func (c *conn) dismiss(stream Stream, raw []byte) {
	if len(raw) == 0 || raw[0] != 22 {
		return
	}
	_ = stream.SetDeadline(time.Now().Add(c.gate.waits.last))
	if _, err := stream.Write(alert()); err != nil || stream.CloseWrite() != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(stream, maxHello))
}

// readHello reads a ClientHello, which may span many records. It returns all bytes that it read, even with an error, and the
// name in it, "" if there is none. It reads nothing after the last record of the ClientHello.
func readHello(r io.Reader) (raw []byte, name string, err error) {
	var message []byte
	for {
		start := len(raw)
		if raw, err = readMore(r, raw, 5); err != nil {
			return raw, "", err
		}
		header := raw[start:]
		length := int(binary.BigEndian.Uint16(header[3:]))
		if header[0] != 22 || header[1] != 3 || length == 0 || len(message)+length > maxHello {
			return raw, "", errNotHello
		}
		start = len(raw)
		if raw, err = readMore(r, raw, length); err != nil {
			return raw, "", err
		}
		message = append(message, raw[start:]...)
		if message[0] != 1 {
			return raw, "", errNotHello
		}
		if len(message) < 4 {
			continue
		}
		size := int(message[1])<<16 | int(message[2])<<8 | int(message[3])
		switch {
		case 4+size > maxHello, len(message) > 4+size:
			return raw, "", errNotHello // too long, or followed by data that a client cannot send yet
		case len(message) == 4+size:
			name, err = serverName(message[4:])
			return raw, name, err
		}
	}
}

// readMore appends n bytes to raw.
func readMore(r io.Reader, raw []byte, n int) ([]byte, error) {
	start := len(raw)
	raw = append(raw, make([]byte, n)...)
	got, err := io.ReadFull(r, raw[start:])
	return raw[:start+got], err
}

// serverName returns the name in the body of a ClientHello, "" if there is none.
func serverName(body []byte) (string, error) {
	b := reader{rest: body}
	b.skip(2 + 32) // version, random
	b.vector(1)    // session id
	b.vector(2)    // cipher suites
	b.vector(1)    // compression methods
	if b.bad {
		return "", errNotHello
	}
	if len(b.rest) == 0 {
		return "", nil // as old as SSL 3
	}
	extensions := b.vector(2)
	if b.bad || len(b.rest) > 0 {
		return "", errNotHello
	}
	name, found := "", false
	for len(extensions.rest) > 0 {
		kind := extensions.number(2)
		data := extensions.vector(2)
		if extensions.bad {
			return "", errNotHello
		}
		if kind != 0 {
			continue
		}
		if found {
			return "", errTwoNames
		}
		found = true
		list := data.vector(2)
		isName := list.number(1) == 0
		host := list.vector(2)
		switch {
		case list.bad, data.bad, len(data.rest) > 0, !isName, len(host.rest) == 0:
			return "", errNotHello
		case len(list.rest) > 0:
			return "", errTwoNames
		}
		name = string(host.rest)
	}
	return name, nil
}

// reader reads TLS's numbers and vectors. Invalid data sets bad.
type reader struct {
	rest []byte
	bad  bool
}

func (b *reader) skip(n int) []byte {
	if b.bad || n > len(b.rest) {
		b.bad = true
		return nil
	}
	taken := b.rest[:n]
	b.rest = b.rest[n:]
	return taken
}

// number reads a number of size bytes.
func (b *reader) number(size int) int {
	n := 0
	for _, c := range b.skip(size) {
		n = n<<8 | int(c)
	}
	return n
}

// vector reads a length, and as many bytes.
func (b *reader) vector(size int) *reader {
	n := b.number(size)
	return &reader{rest: b.skip(n), bad: b.bad}
}
