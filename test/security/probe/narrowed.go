//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// narrowed has connections to pinned.test and api.test while the rules lose first one host, then the
// other.
func narrowed(r *report, _ []string) {
	reach(r, []string{"api.test", "pinned.test"})
	at, err := net.LookupHost("pinned.test")
	r.works("look up", err)
	if err != nil {
		return
	}
	dials := map[string]func(host, port string) (net.Conn, error){
		"address": func(host, port string) (net.Conn, error) {
			return net.DialTimeout("tcp", net.JoinHostPort(host, port), patience)
		},
		"CONNECT": func(host, port string) (net.Conn, error) { return connectWay(net.JoinHostPort(host, port)) },
		"SOCKS":   func(host, port string) (net.Conn, error) { return socksWay(net.JoinHostPort(host, port)) },
	}
	open := func(host string) map[string]net.Conn {
		all := map[string]net.Conn{}
		for way, dial := range dials {
			for what, say := range map[string]string{
				"idle":     "",
				"half":     "GET / HTTP/1.1\r\nHost: ",
				"slow":     "GET /slow HTTP/1.1\r\nHost: " + host + "\r\n\r\n",
				"answered": "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n",
			} {
				c, err := dial(host, "80")
				r.works(what+" by "+way, err)
				if err != nil {
					continue
				}
				_ = c.SetDeadline(time.Now().Add(patience))
				_, _ = io.WriteString(c, say)
				if what == "slow" || what == "answered" { // the response has begun
					_, err := bufio.NewReader(c).ReadString('\n')
					r.works(what+" by "+way, err)
				}
				all[host+", "+what+" by "+way] = c
			}
			if c, err := dial(host, "443"); err == nil {
				_, _ = c.Write(hello(host)[:20])
				all[host+", half a ClientHello by "+way] = c
			}
		}
		return all
	}
	cut := func(all map[string]net.Conn) {
		for what, c := range all {
			_ = c.SetDeadline(time.Now().Add(patience))
			_, err := io.Copy(io.Discard, c)
			if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
				r.breach("the connection to %s lives", what)
			}
			c.Close()
		}
	}
	gone := func(host string) {
		for name, dial := range dials {
			c, err := dial(host, "80")
			if err == nil {
				_, err = get(c, host, "/")
			}
			r.deniedSoon(host+" by "+name, err)
		}
	}
	lost := open("pinned.test")
	kept, err := net.DialTimeout("tcp", "api.test:80", patience)
	r.works("a connection that stays", err)
	reply, err := fetch("api.test", "/narrow/"+os.Getenv("LANE_SESSION"))
	if err == nil && reply != "narrowed: <nil>\n" {
		err = errors.New(reply)
	}
	r.works("narrow the rules", err)
	cut(lost)
	gone("pinned.test")
	if c, err := net.DialTimeout("tcp", net.JoinHostPort(at[0], "80"), patience); err == nil {
		_, err = get(c, "pinned.test", "/")
		r.deniedSoon("the address of before", err)
	}
	if kept != nil {
		reply, err := get(kept, "api.test", "/")
		if err == nil && !strings.Contains(reply, "hello from api.test") {
			err = fmt.Errorf("it replied %q", reply)
		}
		r.works("what is still allowed", err)
	}
	lost = open("api.test")
	reply, err = fetch("api.test", "/close/"+os.Getenv("LANE_SESSION"))
	if err == nil {
		r.breach("the connection that asked for the end has an answer: %q", reply)
	}
	cut(lost)
	gone("api.test")
}
