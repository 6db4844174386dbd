//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// patience limits waits for denials. A denial that takes this long does not count.
const patience = 30 * time.Second

const frontAddress = "127.0.0.53:1080"

// speak sends raw bytes to a TCP port and returns the whole response.
func speak(at, raw string) (string, error) {
	c, err := net.DialTimeout("tcp", at, patience)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return exchange(c, raw)
}

func exchange(c net.Conn, raw string) (string, error) {
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, raw); err != nil {
		return "", err
	}
	reply, err := io.ReadAll(c)
	return string(reply), err
}

// page returns a request for a path of a host, the last one of its connection.
func page(path, host string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n"
}

// fetch gets a path from port 80 of an allowed host.
func fetch(host, path string) (string, error) {
	c, err := net.DialTimeout("tcp", net.JoinHostPort(host, "80"), patience)
	if err != nil {
		return "", err
	}
	return get(c, host, path)
}

// get gets a path over a connection.
func get(c net.Conn, host, path string) (string, error) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, page(path, host)); err != nil {
		return "", err
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// reach is a control: each host must respond.
func reach(r *report, hosts []string) {
	for _, host := range hosts {
		reply, err := fetch(host, "/")
		if err == nil && !strings.Contains(reply, "hello from "+host) {
			err = fmt.Errorf("it replied %q", reply)
		}
		r.works("reach "+host, err)
	}
}

// connectWay requests a way through the front by CONNECT.
func connectWay(target string) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", frontAddress, patience)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	_, err = io.WriteString(c, "CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\n\r\n")
	var head []byte
	for one := make([]byte, 1); err == nil && !strings.HasSuffix(string(head), "\r\n\r\n"); head = append(head, one...) {
		_, err = io.ReadFull(c, one)
	}
	if err == nil && !strings.HasPrefix(string(head), "HTTP/1.1 200 ") {
		line, _, _ := strings.Cut(string(head), "\r\n")
		err = errors.New(line)
	}
	return c, closed(c, err)
}

// socksWay requests a way through the front by SOCKS5.
func socksWay(target string) (net.Conn, error) {
	host, text, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, err
	}
	c, err := net.DialTimeout("tcp", frontAddress, patience)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	raw := []byte{5, 1, 0, 5, 1, 0}
	if ip, err := netip.ParseAddr(host); err != nil {
		raw = append(append(raw, 3, byte(len(host))), host...)
	} else if ip.Is4() {
		raw = append(append(raw, 1), ip.AsSlice()...)
	} else {
		raw = append(append(raw, 4), ip.AsSlice()...)
	}
	_, err = c.Write(binary.BigEndian.AppendUint16(raw, uint16(port)))
	reply := make([]byte, 2+10)
	if err == nil {
		_, err = io.ReadFull(c, reply)
	}
	if err == nil && reply[3] != 0 {
		err = fmt.Errorf("SOCKS reply %d", reply[3])
	}
	return c, closed(c, err)
}

// closed closes c if there is an error, which it returns.
func closed(c net.Conn, err error) error {
	if err != nil {
		c.Close()
	}
	return err
}

// noWay checks that no way leads to a target: host:port.
func (r *report) noWay(target string, ways map[string]func(string) (net.Conn, error)) {
	for name, way := range ways {
		c, err := way(target)
		if err == nil { // the peer identifies the probe by it
			_, _ = io.WriteString(c, "inside")
			c.Close()
		}
		r.deniedSoon(name+" "+target, err)
	}
}

// deniedSoon checks that an attack failed quickly, rather than by a timeout.
func (r *report) deniedSoon(what string, err error) {
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		r.breach("%s: nothing for %v", what, patience)
		return
	}
	r.refused(what, err)
}

func fronts() map[string]func(string) (net.Conn, error) {
	return map[string]func(string) (net.Conn, error){"CONNECT": connectWay, "SOCKS": socksWay}
}

// frontWorks is the control of the front.
func (r *report) frontWorks() {
	for name, way := range fronts() {
		c, err := way("api.test:80")
		if err == nil {
			var reply string
			if reply, err = get(c, "api.test", "/"); err == nil && !strings.Contains(reply, "hello from api.test") {
				err = fmt.Errorf("it replied %q", reply)
			}
		}
		r.works(name, err)
	}
}

// names tries names that must not resolve: as a program does, and through the front.
func names(r *report, all []string) {
	reach(r, []string{"api.test"})
	r.frontWorks()
	for _, name := range all {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		list, err := net.DefaultResolver.LookupHost(ctx, name)
		cancel()
		r.deniedSoon("look up "+name, err)
		if err == nil {
			r.breach("%s is at %v", name, list)
		}
		for _, port := range []string{"80", "443"} {
			r.noWay(name+":"+port, fronts())
		}
	}
}

// rebound tries names that each have a special address, special-0.wild.test and so on, and other names that must not resolve. A
// host resolves only a few new names per second, and each must be refused because of its address, not because of that limit.
func rebound(r *report, args []string) {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		r.breach("control: %v", err)
	}
	all := args[1:]
	for i := range n {
		all = append(all, fmt.Sprintf("special-%d.wild.test", i))
	}
	reach(r, []string{"api.test"})
	for _, name := range all {
		for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			reply, err := speak(frontAddress, "CONNECT "+name+":80 HTTP/1.1\r\n\r\n")
			if strings.Contains(reply, "limit") && time.Since(begin) < patience {
				continue
			}
			if err != nil || !strings.HasPrefix(reply, "HTTP/1.1 403 ") || !strings.Contains(reply, "private_address") {
				r.breach("CONNECT %s: %q, %v", name, reply, err)
			}
			break
		}
		_, err := net.LookupHost(name)
		r.deniedSoon("look up "+name, err)
	}
}

// addresses tries addresses, host:port, that no rule allows: by socket, and through the front.
func addresses(r *report, all []string) {
	reach(r, []string{"api.test"})
	r.frontWorks()
	ways := fronts()
	ways["dial"] = func(target string) (net.Conn, error) { return net.DialTimeout("tcp", target, patience) }
	for _, target := range all {
		r.noWay(target, ways)
	}
}

// nested requests another host within a way to an allowed one.
func nested(r *report, targets []string) {
	r.frontWorks()
	for _, target := range targets {
		for name, way := range fronts() {
			c, err := way("api.test:80")
			r.works(name, err)
			if err != nil {
				continue
			}
			reply, err := exchange(c, "CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\n\r\ninside")
			c.Close()
			if err == nil && !strings.HasPrefix(reply, "HTTP/1.1 200") {
				err = errors.New(reply)
			}
			r.deniedSoon("CONNECT "+target+" in "+name, err)
		}
	}
}

// datagrams tries everything but TCP over IPv4. It must fail immediately.
func datagrams(r *report, targets []string) {
	reach(r, []string{"api.test"})
	for _, target := range targets {
		c, err := net.Dial("udp", target)
		if err == nil {
			_ = c.SetDeadline(time.Now().Add(patience))
			if _, err = c.Write([]byte("inside")); err == nil {
				_, err = c.Read(make([]byte, 1500))
			}
			c.Close()
		}
		r.deniedSoon("UDP to "+target, err)
	}
	list, err := net.DefaultResolver.LookupIP(context.Background(), "ip6", "api.test")
	r.refused(fmt.Sprintf("IPv6 addresses %v", list), err)
	for _, target := range []string{"[2606:4700:4700::1111]:443", "[::ffff:" + os.Getenv("LANE_BAIT") + "]:80", "[::1]:80"} {
		c, err := net.DialTimeout("tcp6", target, patience)
		r.deniedSoon("IPv6 to "+target, err)
		if err == nil {
			c.Close()
		}
	}
	r.refused("a raw socket", openSocket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW))
	r.refused("a raw socket of ICMP", openSocket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP))
	r.refused("a raw socket of IPv6", openSocket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6))
	r.refused("a socket of ping", openSocket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP))
	r.refused("a socket of SCTP", openSocket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP))
	r.refused("a packet socket", openSocket(unix.AF_PACKET, unix.SOCK_RAW, 0))
}
