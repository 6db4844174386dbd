//go:build linux

package relay

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
)

// maxHead is the maximum size of the head of an HTTP request.
const maxHead = 8 << 10

// front serves a program's connection to the proxy. The connection holds a token of room.
func (r *Relay) front(tcp *net.TCPConn) {
	c := &conn{tcp: tcp}
	stop := r.closeOnStop(tcp)
	_ = tcp.SetDeadline(time.Now().Add(callTime))
	b := bufio.NewReaderSize(tcp, maxHead)
	to, refusal := handshake(b, tcp, c)
	_ = tcp.SetDeadline(time.Time{})
	stop()
	if refusal != nil {
		defer r.release()
		closeWith(tcp, refusal)
		return
	}
	early, _ := b.Peek(b.Buffered())
	c.early = bytes.Clone(early)
	r.open(c, to)
}

// closeOnStop closes a connection when the relay ends, until stop is called.
func (r *Relay) closeOnStop(c *net.TCPConn) (stop func()) {
	over := make(chan struct{})
	r.all.Go(func() {
		select {
		case <-r.stop:
			c.Close()
		case <-over:
		}
	})
	return func() { close(over) }
}

// handshake reads the target that a program requests, and prepares the answers. A refusal, which may be empty, ends the
// connection.
func handshake(b *bufio.Reader, w io.Writer, c *conn) (to wire.Open, refusal []byte) {
	first, err := b.Peek(1)
	switch {
	case err != nil:
		return to, []byte{}
	case first[0] == 5:
		return socks(b, w, c)
	case first[0] == 4:
		return to, []byte{0, 0x5b, 0, 0, 0, 0, 0, 0} // SOCKS4: rejected
	}
	return connect(b, c)
}

// connect serves HTTP CONNECT.
func connect(b *bufio.Reader, c *conn) (to wire.Open, refusal []byte) {
	line, err := readHead(b)
	if err != nil {
		return to, page(400, "Bad Request", "This proxy expects a CONNECT request of HTTP/1.1: "+err.Error()+".")
	}
	method, rest, _ := strings.Cut(line, " ")
	target, version, ok := strings.Cut(rest, " ")
	if !ok || version != "HTTP/1.1" && version != "HTTP/1.0" {
		return to, page(400, "Bad Request", "This proxy expects a CONNECT request of HTTP/1.1.")
	}
	if method != "CONNECT" {
		return to, page(501, "Not Implemented", "This proxy only serves CONNECT. Connect to the host directly: allowed names resolve in the sandbox. For an address, let the client tunnel, as curl does with --proxytunnel.")
	}
	host, text, err := net.SplitHostPort(target)
	if err == nil {
		to, err = hostPort(host, text)
	}
	if err != nil {
		return to, page(400, "Bad Request", "This proxy expects CONNECT host:port: "+err.Error()+".")
	}
	to.Via = wire.ViaConnect
	c.granted = []byte("HTTP/1.1 200 Connection established\r\n\r\n")
	c.refuse = func(a wire.Answer) []byte {
		switch {
		case a.OK:
			return page(502, "Bad Gateway", fmt.Sprintf("%s cannot be reached: %s.", target, a.Reason))
		case a.Missing:
			return page(502, "Bad Gateway", fmt.Sprintf("%s does not exist.", to.Host))
		}
		return page(403, "Forbidden", fmt.Sprintf("%s is not allowed: %s.", target, a.Reason))
	}
	return to, nil
}

// errHead is an invalid head of a request.
var errHead = errors.New("the request's head is invalid or longer than 8 KiB")

// readHead reads the head of a request and returns its first line. It ignores the other lines.
func readHead(b *bufio.Reader) (first string, err error) {
	left := maxHead
	for n := 0; ; n++ {
		line, err := b.ReadSlice('\n')
		if left -= len(line); err != nil || left < 0 {
			return "", errHead
		}
		text, ok := strings.CutSuffix(string(line), "\r\n")
		if !ok || strings.ContainsAny(text, "\x00\r") {
			return "", errHead
		}
		switch {
		case n == 0 && text == "":
			return "", errHead
		case n == 0:
			first = text
		case text == "":
			return first, nil
		}
	}
}

// page is an HTTP response with a sentence in plain text.
func page(status int, phrase, text string) []byte {
	text += "\n"
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, phrase, len(text), text)
}

// hostPort checks a host and a port.
func hostPort(host, port string) (to wire.Open, err error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return to, errors.New("the port is not between 1 and 65535")
	}
	if to.Host, err = target(host); err != nil {
		return to, err
	}
	to.Port = uint16(n)
	return to, nil
}

// target checks a host, which is a name or an IP address without a zone.
func target(host string) (string, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return "", errors.New("the address has a zone")
		}
		return ip.String(), nil
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if !isName(name) {
		return "", errors.New("the host is neither a name nor an IP address")
	}
	return name, nil
}

// Replies of SOCKS5.
const (
	socksDone        = 0
	socksDenied      = 2
	socksUnreachable = 4
	socksRefused     = 5
	socksCommand     = 7
	socksAddress     = 8
)

// socksReply is a reply of SOCKS5, with an empty address.
func socksReply(code byte) []byte { return []byte{5, code, 0, 1, 0, 0, 0, 0, 0, 0} }

// socks serves SOCKS5 without authentication, for the command CONNECT.
func socks(b *bufio.Reader, w io.Writer, c *conn) (to wire.Open, refusal []byte) {
	var head [4]byte
	methods := make([]byte, 255)
	if _, err := io.ReadFull(b, head[:2]); err != nil {
		return to, []byte{}
	}
	methods = methods[:head[1]]
	if _, err := io.ReadFull(b, methods); err != nil {
		return to, []byte{}
	}
	if bytes.IndexByte(methods, 0) < 0 {
		return to, []byte{5, 0xff} // no acceptable method
	}
	if _, err := w.Write([]byte{5, 0}); err != nil {
		return to, []byte{}
	}
	if _, err := io.ReadFull(b, head[:]); err != nil || head[0] != 5 {
		return to, []byte{}
	}
	host, code := socksHost(b, head[3])
	if code != socksDone {
		return to, socksReply(code)
	}
	var port [2]byte
	if _, err := io.ReadFull(b, port[:]); err != nil {
		return to, []byte{}
	}
	if head[1] != 1 {
		return to, socksReply(socksCommand)
	}
	host, err := target(host)
	to = wire.Open{Host: host, Port: binary.BigEndian.Uint16(port[:]), Via: wire.ViaSocks}
	if err != nil || to.Port == 0 {
		return to, socksReply(socksAddress)
	}
	c.granted = socksReply(socksDone)
	c.refuse = func(a wire.Answer) []byte {
		switch {
		case a.OK:
			return socksReply(socksRefused)
		case a.Missing:
			return socksReply(socksUnreachable)
		}
		return socksReply(socksDenied)
	}
	return to, nil
}

// socksHost reads an address of SOCKS5.
func socksHost(b *bufio.Reader, kind byte) (string, byte) {
	size := 0
	switch kind {
	case 1:
		size = 4
	case 4:
		size = 16
	case 3:
		n, err := b.ReadByte()
		if err != nil {
			return "", socksAddress
		}
		size = int(n)
	}
	if size == 0 {
		return "", socksAddress
	}
	raw := make([]byte, size)
	if _, err := io.ReadFull(b, raw); err != nil {
		return "", socksAddress
	}
	if kind == 3 {
		return string(raw), socksDone
	}
	ip, _ := netip.AddrFromSlice(raw)
	return ip.String(), socksDone
}
