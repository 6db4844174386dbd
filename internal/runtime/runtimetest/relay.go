package runtimetest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/test/need"
)

// relayHost is a host that answers an agent's requests.
type relayHost struct {
	*jar
	relay *agent.Relay
	serve func(*agent.Conn, wire.Open)
	ended chan error
	conns sync.WaitGroup

	mu   sync.Mutex
	asks []wire.Ask
}

// testPorts are the ports of the relays under test.
func testPorts() []uint16 { return []uint16{80, 443, 8443} }

// allowedIP is an address that the host allows, from a range for documentation.
const allowedIP = "203.0.113.7"

// relayed opens a relay. serve serves each connection, which is then closed.
func (j *jar) relayed(serve func(*agent.Conn, wire.Open)) *relayHost {
	j.Helper()
	r, err := j.agent.Relay(j.ctx, testPorts())
	if err != nil {
		j.Fatalf("relay: %v", err)
	}
	h := &relayHost{jar: j, relay: r, serve: serve, ended: make(chan error, 1)}
	go h.run()
	j.Cleanup(h.close)
	return h
}

// close ends the relay, if it still runs.
func (h *relayHost) close() {
	h.relay.Close()
	if err, ok := <-h.ended; ok && !errors.Is(err, agent.ErrDisconnected) {
		h.Errorf("the relay: %v", err)
	}
	h.conns.Wait()
}

func (h *relayHost) run() {
	defer close(h.ended)
	for {
		ask, err := h.relay.Next()
		if err == nil {
			err = h.answer(ask)
		}
		if err != nil {
			h.ended <- err
			return
		}
	}
}

// answer resolves names that end in .allowed; names that end in .missing do not exist. Connections to refused.allowed are refused,
// and those to closed.allowed fail.
func (h *relayHost) answer(ask wire.Ask) error {
	h.mu.Lock()
	h.asks = append(h.asks, ask)
	h.mu.Unlock()
	a := wire.Answer{ID: ask.ID, Reason: "no_match"}
	if ask.Open == nil {
		a.OK, a.Missing = strings.HasSuffix(ask.Name, ".allowed"), strings.HasSuffix(ask.Name, ".missing")
		return h.relay.Answer(a)
	}
	switch host := ask.Open.Host; {
	case host == "closed.allowed":
		return h.relay.Answer(wire.Answer{ID: ask.ID, OK: true, Reason: "connection refused"})
	case host != "refused.allowed" && strings.HasSuffix(host, ".allowed"), host == allowedIP:
		h.conns.Go(func() { h.accept(ask) })
		return nil
	default:
		a.Missing = strings.HasSuffix(host, ".missing")
		return h.relay.Answer(a)
	}
}

func (h *relayHost) accept(ask wire.Ask) {
	c, err := h.agent.Accept(h.ctx, ask.ID)
	if err != nil {
		h.Errorf("accept: %v", err)
		return
	}
	defer c.Close()
	h.serve(c, *ask.Open)
}

// opened returns the requested connections, as text.
func (h *relayHost) opened() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []string
	for _, a := range h.asks {
		if a.Open != nil {
			list = append(list, fmt.Sprintf("%s:%d by %s", a.Open.Host, a.Open.Port, a.Open.Via))
		}
	}
	return strings.Join(list, ", ")
}

// echo sends back all bytes of the program, and a word after their end.
func echo(c *agent.Conn, _ wire.Open) {
	if _, err := io.Copy(c, c); err == nil {
		fmt.Fprint(c, "goodbye")
	}
}

// net runs test/net with a text as its standard input, and returns its output without the time that it took.
func (j *jar) net(stdin string, args ...string) string {
	j.Helper()
	line, _ := j.timed(stdin, args...)
	return line
}

// timed is like net, and also returns the time in milliseconds.
func (j *jar) timed(stdin string, args ...string) (line string, ms int) {
	j.Helper()
	got := j.run(j.netCommand(stdin, args...))
	text := strings.TrimSuffix(got.out, " ms\n")
	cut := strings.LastIndexByte(text, ' ') + 1
	ms, err := strconv.Atoi(text[cut:])
	if got.exit.Code != 0 || err != nil {
		j.Fatalf("net %q: %+v, stdout %.300q, stderr %.300q", args, got.exit, got.out, got.err)
	}
	return strings.TrimSuffix(text[:cut], " in "), ms
}

func (j *jar) netCommand(stdin string, args ...string) wire.Exec {
	return j.sh(`text=$1; shift; printf "$text" | ./net "$@"`, append([]string{stdin}, args...)...)
}

// prompt is the longest time in milliseconds of an immediate failure, on a slow and busy machine. Resolvers wait for longer.
const prompt = 4500

// at checks the output of a program, and that it came immediately.
func (j *jar) at(want, stdin string, args ...string) {
	j.Helper()
	got, ms := j.timed(stdin, args...)
	if got != want || ms > prompt {
		j.Errorf("net %q: %s in %d ms, want %s", args, got, ms, want)
	}
}

func (j *jar) equal(what, got, want string) {
	j.Helper()
	if got != want {
		j.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
}

func testRelay(t *testing.T, o Options) {
	if !o.Isolated {
		j := open(t, o)
		if _, err := j.agent.Relay(j.ctx, testPorts()); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a relay of a sandbox without protections: %v", err)
		}
		_, err := j.agent.Connect(j.ctx, 22)
		j.refused("connect", err, wire.CodeUnsupported)
		return
	}
	j := open(t, o)
	j.program(o.Net, "net")
	// The order matters: nothing listens before the first relay. Nor does it after a ping, which prepares a relay.
	if _, err := j.agent.Ping(j.ctx); err != nil {
		j.Fatal(err)
	}
	j.sub("none", relayNone)
	j.sub("names", relayNames)
	j.sub("glibc", relayGlibc)
	j.sub("musl", relayMusl)
	j.sub("connections", relayConnections)
	j.sub("front", relayFront)
	j.sub("stream", relayStream)
	j.sub("ends", relayEnds)
	j.sub("way in", relayWayIn)
}

// Without a relay, everything fails immediately.
func relayNone(j *jar) {
	j.at("error connection refused", "", "talk", "127.64.0.2:443")
	j.at("error connection refused", "", "talk", "127.0.0.53:53")
	j.at("error connection refused", "", "datagram", "127.0.0.53:53")
	if got, ms := j.timed("", "lookup", "one.allowed"); !strings.HasPrefix(got, "error ") || ms > prompt {
		j.Errorf("lookup: %s in %d ms", got, ms)
	}
}

func relayNames(j *jar) {
	h := j.relayed(echo)
	j.at("127.64.0.2", "", "lookup", "one.allowed")
	j.at("127.64.0.3", "", "lookup", "Two.ALLOWED.")
	j.at("127.64.0.2", "", "lookup", "one.allowed")
	for _, name := range []string{"one.denied", "one.missing", "allowed", strings.Repeat("a.", 100) + "denied", "sp ace.allowed"} {
		j.at("error no such host", "", "lookup", name)
	}
	if got := h.opened(); got != "" {
		j.Errorf("connections for lookups: %s", got)
	}
}

// program copies a program into the workspace.
func (j *jar) program(path, name string) {
	j.Helper()
	program, err := os.Open(path)
	if err != nil {
		j.Fatal(err)
	}
	defer program.Close()
	f := j.file(name)
	f.Mode = 0o755
	if _, err := j.agent.WriteFile(j.ctx, f, program); err != nil {
		j.Fatal(err)
	}
}

// Resolvers of C libraries send different queries. A program without IPv6 should not wait for an answer about it.
func relayMusl(j *jar) {
	if _, err := os.Stat(j.o.Net + "-musl"); err != nil {
		need.Missing(j, "musl-gcc")
	}
	j.program(j.o.Net+"-musl", "musl")
	j.relayed(echo)
	const none = "error -2" // EAI_NONAME
	for name, want := range map[string][]string{
		"one.allowed": {"127.64.0.2", "127.64.0.2", "127.64.0.2", "127.64.0.2", none, none},
		"one.denied":  {none, none, none, none, none, none},
	} {
		j.soon(name, func() { j.equal(name, j.must("./musl "+name), strings.Join(want, ", ")) })
	}
}

// soon runs do, which has to end immediately. A resolver that waits does so each time, a busy machine does not.
func (j *jar) soon(what string, do func()) {
	j.Helper()
	var took []int64
	for range 5 {
		began := time.Now()
		do()
		if took = append(took, time.Since(began).Milliseconds()); took[len(took)-1] <= prompt {
			return
		}
	}
	j.Errorf("%s: each of %v ms", what, took)
}

func relayGlibc(j *jar) {
	j.relayed(echo)
	const script = `
import socket, time
for name in "one.allowed", "one.denied":
    for family in socket.AF_UNSPEC, socket.AF_INET, socket.AF_INET6:
        for flags in 0, socket.AI_ADDRCONFIG:
            for again in range(5): # a resolver that waits does so each time, a busy machine does not
                began = time.monotonic()
                try: got = sorted({a[4][0] for a in socket.getaddrinfo(name, 80, family, socket.SOCK_STREAM, 0, flags)})
                except socket.gaierror as e: got = e.args[0]
                late = " late" if time.monotonic() - began > 2.5 else ""
                if not late: break
            print(name[4:], {0: "any", 2: "4", 10: "6"}[int(family)], "config" if flags else "all", got, late)
`
	if j.run(j.sh("command -v python3")).exit.Code != 0 {
		j.Skip("the image has no Python")
	}
	got := j.must("exec python3 -c \"$1\"", script)
	const one, none, nodata = "['127.64.0.2']", "-2", "-5" // EAI_NONAME, EAI_NODATA
	var want []string
	for _, line := range []string{"any all " + one, "any config " + one, "4 all " + one, "4 config " + one, "6 all " + nodata, "6 config " + none} {
		want = append(want, "allowed "+line)
	}
	for _, line := range []string{"any all", "any config", "4 all", "4 config", "6 all", "6 config"} {
		want = append(want, "denied "+line+" "+none)
	}
	j.equal("getaddrinfo", strings.ReplaceAll(got, " \n", "\n"), strings.Join(want, "\n"))
}

func relayConnections(j *jar) {
	h := j.relayed(echo)
	j.at(`"hellogoodbye"`, "hello", "talk", "one.allowed:80")
	j.at(`"goodbye"`, "", "talk", "one.allowed:8443")
	j.at("error connection reset by peer", "", "talk", "refused.allowed:443")
	j.at("error connection reset by peer", "", "talk", "closed.allowed:443")
	if got, want := h.opened(), "one.allowed:80 by address, one.allowed:8443 by address, refused.allowed:443 by address, closed.allowed:443 by address"; got != want {
		j.Errorf("asked for %s, want %s", got, want)
	}
	j.at("error connection refused", "", "talk", "one.allowed:22")
	j.at("error no such host", "", "talk", "one.denied:80")
	j.at("error network is unreachable", "", "talk", allowedIP+":80")
	j.at("error network is unreachable", "", "datagram", allowedIP+":443")
	j.at("error connection refused", "", "datagram", "one.allowed:443")
	if got, ms := j.timed("", "talk", "[2001:db8::1]:443"); !strings.HasPrefix(got, "error ") || ms > prompt {
		j.Errorf("IPv6: %s in %d ms", got, ms)
	}
	if got := j.net("", "many", "one.allowed:443", "100"); got != "100 connections" {
		j.Error(got)
	}
}

// The front accepts IP addresses and proxy requests.
func relayFront(j *jar) {
	h := j.relayed(echo)
	const front = "127.0.0.53:1080"
	page := func(status string, text ...string) {
		j.Helper()
		got := j.net(text[0], "talk", front)
		if !strings.Contains(got, "HTTP/1.1 "+status) || len(text) > 1 && !strings.Contains(got, text[1]) {
			j.Errorf("%q: %s, want %q", text[0], got, status)
		}
	}
	j.at(`"HTTP/1.1 200 Connection established\r\n\r\nhigoodbye"`, `CONNECT one.allowed:443 HTTP/1.1\r\nHost: x\r\n\r\nhi`, "talk", front)
	j.at(`"HTTP/1.1 200 Connection established\r\n\r\ngoodbye"`, `CONNECT `+allowedIP+`:9999 HTTP/1.0\r\n\r\n`, "talk", front)
	page("403 Forbidden", `CONNECT one.denied:443 HTTP/1.1\r\n\r\n`, "one.denied:443 is not allowed: no_match.")
	page("403 Forbidden", `CONNECT [2001:db8::1]:443 HTTP/1.1\r\n\r\n`)
	page("502 Bad Gateway", `CONNECT one.missing:443 HTTP/1.1\r\n\r\n`, "does not exist")
	page("502 Bad Gateway", `CONNECT closed.allowed:443 HTTP/1.1\r\n\r\n`, "connection refused")
	page("501 Not Implemented", `GET http://one.allowed/ HTTP/1.1\r\nHost: one.allowed\r\n\r\n`)
	page("400 Bad Request", `CONNECT one.allowed HTTP/1.1\r\n\r\n`)
	page("400 Bad Request", `CONNECT one.allowed:0 HTTP/1.1\r\n\r\n`)
	page("400 Bad Request", `CONNECT one%%00.allowed:443 HTTP/1.1\r\n\r\n`)
	const hello = `\005\001\000`
	j.at(`"\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00higoodbye"`, hello+`\005\001\000\003\013one.allowed\001\273hi`, "talk", front)
	j.at(`"\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00goodbye"`, hello+`\005\001\000\001\313\000\161\007\001\273`, "talk", front)
	j.at(`"\x05\x00\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00"`, hello+`\005\001\000\003\012one.denied\001\273`, "talk", front)
	j.at(`"\x05\x00\x05\a\x00\x01\x00\x00\x00\x00\x00\x00"`, hello+`\005\003\000\003\013one.allowed\001\273`, "talk", front)
	want := "one.allowed:443 by connect, 203.0.113.7:9999 by connect, one.denied:443 by connect, 2001:db8::1:443 by connect, " +
		"one.missing:443 by connect, closed.allowed:443 by connect, one.allowed:443 by socks, 203.0.113.7:443 by socks, one.denied:443 by socks"
	if got := h.opened(); got != want {
		j.Errorf("asked for %s, want %s", got, want)
	}
}

// Bytes flow both ways at the same time, and none is lost.
func relayStream(j *jar) {
	const size = 16 << 20 // many times the size of the windows
	sent, received := sha256.New(), sha256.New()
	served := make(chan error, 1)
	j.relayed(func(c *agent.Conn, _ wire.Open) {
		read := make(chan error)
		go func() {
			_, err := io.Copy(hashing{received}, c)
			read <- err
		}()
		_, err := io.Copy(io.MultiWriter(c, sent), io.LimitReader(rand.NewChaCha8([32]byte{2}), size))
		served <- errors.Join(err, c.CloseWrite(), <-read)
	})
	got := j.net("", "stream", "one.allowed:443", strconv.Itoa(size))
	if err := <-served; err != nil {
		j.Error(err)
	}
	if want := fmt.Sprintf("sent %x received %d %x", received.Sum(nil), size, sent.Sum(nil)); got != want {
		j.Errorf("%s, want %s", got, want)
	}
}

// hashing hides all methods but Write from io.Copy.
type hashing struct{ hash.Hash }

// A connection ends with its relay, and a reset reaches the other side.
func relayEnds(j *jar) {
	open := make(chan *agent.Conn, 1)
	hold := func(c *agent.Conn, _ wire.Open) {
		open <- c
		_, _ = io.Copy(io.Discard, c)
	}
	for _, way := range []struct {
		name string
		end  func(*relayHost, *agent.Conn)
	}{
		{"relay replaced", func(h *relayHost, _ *agent.Conn) { j.relayed(echo) }},
		{"connection aborted", func(_ *relayHost, c *agent.Conn) { c.Abort() }},
		{"relay closed", func(h *relayHost, _ *agent.Conn) { h.relay.Close() }}, // last: the reset shows that the agent has noticed it
	} {
		h := j.relayed(hold)
		w := j.watch(j.start(j.command("./net", "wait", "one.allowed:80")))
		way.end(h, <-open)
		w.await("error connection reset by peer")
		h.close()
	}
	// A name fails temporarily, and so does a cached address.
	if got, ms := j.timed("", "lookup", "one.allowed"); !strings.HasPrefix(got, "error ") || got == "error no such host" || ms > prompt {
		j.Errorf("lookup without a relay: %s in %d ms", got, ms)
	}
	j.at("error connection reset by peer", "", "talk", "127.64.0.2:80")
	j.relayed(echo)
	j.at(`"backgoodbye"`, "back", "talk", "one.allowed:80")
}

// The host can connect to programs that listen, but not to the agent.
func relayWayIn(j *jar) {
	j.relayed(echo)
	for _, at := range []string{"127.0.0.1:3000", "0.0.0.0:3000", "[::1]:3000"} {
		w := j.watch(j.start(j.netCommand("", "listen", at)))
		w.await("\n")
		if strings.Contains(w.seen(), "error") { // there may be no IPv6
			w.end()
			continue
		}
		c, err := j.agent.Connect(j.ctx, 3000)
		if err != nil {
			j.Fatalf("connect to %s: %v", at, err)
		}
		if _, err := io.WriteString(c, "hello"); err != nil {
			j.Error(err)
		}
		if err := c.CloseWrite(); err != nil {
			j.Error(err)
		}
		if got, err := io.ReadAll(c); string(got) != "hellogoodbye" || err != nil {
			j.Errorf("%s: %q, %v", at, got, err)
		}
		c.Close()
		w.end()
	}
	for _, port := range []uint16{53, 80, 443, 1080, 3000} {
		_, err := j.agent.Connect(j.ctx, port)
		j.refused(fmt.Sprint("connect to ", port), err, wire.CodeNotFound)
	}
}
