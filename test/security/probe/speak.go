//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// hello returns the ClientHello of a program that requests this server name, "" for none.
func hello(name string) []byte {
	ours, theirs := net.Pipe()
	go func() {
		c := tls.Client(ours, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		_ = c.Handshake() // no server answers
	}()
	defer theirs.Close()
	buf := make([]byte, 16<<10)
	n, _ := theirs.Read(buf)
	return buf[:n]
}

// pieces splits a record's message into records of n bytes each.
func pieces(record []byte, n int) []byte {
	var all []byte
	for message := record[5:]; len(message) > 0; {
		k := min(n, len(message))
		all = append(append(all, record[0], record[1], record[2], 0, byte(k)), message[:k]...)
		message = message[k:]
	}
	return all
}

// handshake sends a ClientHello to an allowed host and reports whether a server responds: with a handshake rather than an
// alert.
func handshake(raw []byte, step int) error {
	c, err := net.DialTimeout("tcp", "api.test:443", patience)
	if err != nil {
		return err
	}
	defer c.Close()
	return shake(c, raw, step)
}

// shake is handshake over a connection.
func shake(c net.Conn, raw []byte, step int) error {
	_ = c.SetDeadline(time.Now().Add(patience))
	for len(raw) > 0 {
		n := min(step, len(raw))
		if _, err := c.Write(raw[:n]); err != nil {
			return err
		}
		raw = raw[n:]
	}
	head := make([]byte, 5)
	if _, err := io.ReadFull(c, head); err != nil {
		return err
	}
	const answer = 22
	if head[0] != answer {
		return fmt.Errorf("a record of type %d", head[0])
	}
	return nil
}

// servers names other servers than the connection's, or none, in TLS.
func servers(r *report, others []string) {
	const whole = 16 << 10
	r.works("the right name", handshake(hello("api.test"), whole))
	r.works("the right name in pieces", handshake(pieces(hello("api.test"), 20), whole))
	for _, name := range append(others, "") {
		raw := hello(name)
		r.deniedSoon(fmt.Sprintf("the name %q", name), handshake(raw, whole))
		r.deniedSoon(fmt.Sprintf("the name %q in records of 20 bytes", name), handshake(pieces(raw, 20), whole))
		r.deniedSoon(fmt.Sprintf("the name %q byte by byte", name), handshake(raw, 1))
		r.deniedSoon(fmt.Sprintf("the name %q first, then the right one", name), handshake(append(raw, hello("api.test")...), whole))
	}
	hiddenServers(r, others[0])
	reply, err := speak("api.test:443", page("/", "api.test"))
	if err == nil && !strings.Contains(reply, "HTTP/1") {
		err = fmt.Errorf("%q", reply)
	}
	r.deniedSoon("HTTP on the port of TLS", err)
}

// requests asks an allowed host for pages of another one. The responses are counted: none may be the other host's.
func requests(r *report, others []string) {
	const right = "GET / HTTP/1.1\r\nHost: api.test\r\n\r\n"
	try := func(what, raw string, want int) {
		reply, err := speak("api.test:80", raw)
		if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
			r.breach("%s: nothing for %v", what, patience)
		}
		hellos, ours := strings.Count(reply, "hello from "), strings.Count(reply, "hello from api.test\n")
		if hellos != ours || ours > want {
			r.breach("%s: %d answers, %d of the host, %d may be: %q", what, hellos, ours, want, reply)
			return
		}
		fmt.Printf("%s: %d answers of the host\n", what, ours)
	}
	reach(r, []string{"api.test"})
	for _, other := range others {
		last := page("/", other)
		try("another host", last, 0)
		try("another host pipelined", right+last+last, 1)
		try("another host after a body", "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 3\r\n\r\nabc"+last, 1)
		try("an absolute target", "GET http://"+other+"/ HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n", 0)
		try("two hosts", "GET / HTTP/1.1\r\nHost: api.test\r\nHost: "+other+"\r\nConnection: close\r\n\r\n", 0)
		try("two hosts, the other first", "GET / HTTP/1.1\r\nHost: "+other+"\r\nHost: api.test\r\nConnection: close\r\n\r\n", 0)
		try("a folded host", "GET / HTTP/1.1\r\nHost: api.test\r\n "+other+"\r\nConnection: close\r\n\r\n", 0)
		try("a host with a user", page("/", "api.test@"+other), 0)
		try("a host with a comma", page("/", "api.test,"+other), 0)
		try("a bare line feed", "GET / HTTP/1.1\nHost: "+other+"\nConnection: close\n\n", 0)
		smuggled := "0\r\n\r\n" + last
		try("both lengths", fmt.Sprintf("POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n%s", len(smuggled), smuggled), 1)
		try("two lengths", "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n"+last, 1)
		try("an odd encoding", "POST / HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\n"+smuggled, 1)
		try("an upgrade", "GET / HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"+last, 1)
	}
	try("no host", "GET / HTTP/1.0\r\n\r\n", 0)
	try("HTTP/2 at once", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0)
}

// tunnel carries data out in names: a thousand below each parent. It queries text records, too.
func tunnel(r *report, parents []string) {
	reach(r, []string{"api.test"})
	each := 125 // by each of eight goroutines
	if os.Getenv("LANE_TIER") == "test" {
		each = 40
	}
	for _, parent := range parents {
		var found atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range each {
					if _, err := net.DefaultResolver.LookupNetIP(context.Background(), "ip4", rand.Text()+"."+parent); err == nil {
						found.Add(1)
					}
				}
			})
		}
		all.Wait()
		n := found.Load()
		switch wild := parent == "wild.test"; {
		case wild && n == 0:
			r.breach("control: no name below %s", parent)
		case wild && n <= 256 || n == 0:
			fmt.Printf("%d names below %s\n", n, parent)
		default:
			r.breach("%d names below %s", n, parent)
		}
		for range 20 {
			list, err := net.DefaultResolver.LookupTXT(context.Background(), "text-"+rand.Text()+"."+parent)
			r.deniedSoon(fmt.Sprintf("text below %s %q", parent, list), err)
		}
		r.records(parent)
	}
	bait := net.JoinHostPort(os.Getenv("LANE_BAIT"), "53")
	for _, server := range []string{bait, "8.8.8.8:53"} {
		for _, network := range []string{"udp", "tcp"} {
			foreign := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, server)
			}}
			list, err := foreign.LookupHost(context.Background(), "api.test")
			r.deniedSoon(fmt.Sprintf("the resolver %s by %s %v", server, network, list), err)
		}
	}
}

// crowd opens n connections that send nothing, or not enough, and then ends them.
func crowd(r *report, args []string) {
	n, _ := strconv.Atoi(args[0])
	at, err := net.ResolveIPAddr("ip4", "api.test")
	r.works("look up", err)
	if err != nil {
		return
	}
	var mu sync.Mutex
	var open []net.Conn
	var all sync.WaitGroup
	const workers = 10 // each may need a thread
	for worker := range workers {
		all.Go(func() {
			for i := worker; i < n; i += workers {
				c, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: at.IP, Port: []int{80, 443}[i/workers%2]})
				if err != nil {
					continue // the sandbox cannot hold more
				}
				switch i / workers % 6 {
				case 0, 1:
					_ = c.CloseWrite()
				case 2, 3:
					_, _ = io.WriteString(c, "GET / HT")
				}
				mu.Lock()
				open = append(open, c)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	fmt.Printf("%d of %d connections\n", len(open), n)
	if len(open) < n/4 {
		r.breach("control: only %d of %d connections", len(open), n)
	}
	for _, c := range open {
		c.Close()
	}
}

// settle waits until the host has no more descriptors than at the first time.
func settle(r *report, _ []string) {
	var reply string
	var err error
	for begin := time.Now(); time.Since(begin) < 2*time.Minute; time.Sleep(100 * time.Millisecond) {
		if reply, err = fetch("api.test", "/mark"); err == nil && strings.Contains(reply, "settled") {
			fmt.Println(reply[strings.LastIndex(reply, "settled"):])
			return
		}
	}
	r.breach("the host does not settle: %q, %v", reply, err)
}
