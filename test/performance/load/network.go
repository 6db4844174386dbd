//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	benchHost     = "bench.test"
	benchSessions = 6
	benchEach     = 167 // connections of a session; it may have 192
)

// timesOf is the program that measures in a sandbox: queries for a name, and connections with one byte in each direction, to the host
// and, in turns, to a program in the sandbox. It prints the times in microseconds, a line for each kind.
const timesOf = `import os, socket, struct, sys, threading, time
host, port, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
own = socket.create_server(("127.0.0.1", 0), backlog=64)
child = os.fork()
if child == 0: # a program of its own, which is no other thread of this one
    while True:
        c = own.accept()[0]
        c.sendall(c.recv(1))
        c.close()
def connect(at):
    begin = time.perf_counter()
    c = socket.create_connection(at)
    c.sendall(b"x")
    if c.recv(1) != b"x": sys.exit("no echo")
    took = time.perf_counter() - begin
    c.close()
    return took
query = struct.pack(">6H", 7, 0x0100, 1, 0, 0, 0) + b"".join(bytes([len(l)]) + l.encode() for l in host.split(".")) + b"\0" + struct.pack(">2H", 1, 1)
dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
dns.connect(("127.0.0.53", 53))
def ask():
    begin = time.perf_counter()
    dns.send(query)
    if len(dns.recv(512)) < 40: sys.exit("no answer")
    return time.perf_counter() - begin
address = socket.gethostbyname(host)
kinds = [ask, lambda: connect(own.getsockname()), lambda: connect((address, port))]
times = [[k() for _ in range(20)] and [] for k in kinds]
for _ in range(n):
    for list, kind in zip(times, kinds):
        list.append(kind())
for list in times:
    print(*("%.1f" % (t * 1e6) for t in list))
os.kill(child, 9)
`

// holdOf is the program that opens connections and holds them until the other side ends. It prints the memory of its sandbox's agent with
// one connection and with all, in KiB.
const holdOf = `import socket, sys
host, port, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def agent(): return next(l.split()[1] for l in open("/proc/1/status") if l.startswith("VmRSS"))
def connect():
    c = socket.create_connection((host, port))
    c.sendall(b"x")
    if c.recv(1) != b"x": sys.exit("no echo")
    return c
list = [connect()]
before = agent()
list += [connect() for _ in range(n - 1)]
print(before, agent())
list[0].sendall(b"r")
for c in list: c.recv(1)
`

// networks measures the traffic from sandboxes to the host's network, with agents and gates.
func networks(ctx context.Context, binary, data string, out *sheet) (err error) {
	if _, err := exec.LookPath("python3"); err != nil {
		out.put("connections of a sandbox to the network", "", "not measured: python3 is missing")
		return nil
	}
	p, err := startOutside()
	if err != nil {
		return err
	}
	defer p.stop()
	s, err := start(binary, data, "--set", "egress_allow="+benchHost+",127.0.0.1", "--set", "egress_private=true", "--set", "egress_ports="+p.port,
		"--set", "egress_resolver="+p.resolver.LocalAddr().String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := wayOut(ctx, s, p, out); err != nil {
		return err
	}
	return holding(ctx, s, p, out)
}

// reaching returns a request whose sandbox reaches the peer.
func reaching(more map[string]any) map[string]any {
	body := map[string]any{
		"spec_version": "1.0", "base_image": "host", "network_policy": "allowlist",
		"egress": map[string]any{"hosts": []string{benchHost}, "ips": []string{"127.0.0.1"}},
	}
	maps.Copy(body, more)
	return body
}

// wayOut measures queries and connections.
func wayOut(ctx context.Context, s *daemon, p *outside, out *sheet) error {
	var got struct {
		Stdout string `json:"stdout"`
		Stderr string `json:"stderr"`
	}
	err := s.ask(ctx, http.MethodPost, prefix+"/runs?wait=600s", reaching(map[string]any{
		"command": []string{"python3", "-c", timesOf, benchHost, p.port, "2000"}, "timeout_sec": 300,
	}), &got)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(got.Stdout), "\n")
	if len(lines) != 3 {
		return fmt.Errorf("the program in the sandbox printed %.200q, %.500q", got.Stdout, got.Stderr)
	}
	var times [3][]time.Duration
	for i, line := range lines {
		for _, text := range strings.Fields(line) {
			us, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return err
			}
			times[i] = append(times[i], time.Duration(us*float64(time.Microsecond)))
		}
	}
	queries, direct, through := times[0], times[1], times[2]
	out.put("the answer to a program's DNS query, p50", "0.3 ms", "%.2f ms", ms(quantile(queries, 0.5)))
	for _, at := range []struct {
		q            float64
		name, budget string
	}{{0.5, "p50", "0.5 ms more"}, {0.99, "p99", "3 ms more"}} {
		ours, theirs := ms(quantile(through, at.q)), ms(quantile(direct, at.q))
		more := "none"
		if ours > theirs {
			more = fmt.Sprintf("%.2f ms more", ours-theirs)
		}
		out.put("a connection and a byte each way, by agent and gate, beside one over the sandbox's loopback, "+at.name, at.budget,
			"%s (%.2f and %.2f ms)", more, ours, theirs)
	}
	return nil
}

// holding measures the memory of a thousand open connections.
func holding(ctx context.Context, s *daemon, p *outside, out *sheet) error {
	var ids []string
	for range benchSessions {
		var made struct {
			ID string `json:"session_id"`
		}
		if err := s.ask(ctx, http.MethodPost, prefix+"/sessions", reaching(nil), &made); err != nil {
			return err
		}
		ids = append(ids, made.ID)
	}
	hold := func(id string, n int) (before, after int64, err error) {
		var got struct {
			Stdout string `json:"stdout"`
			Stderr string `json:"stderr"`
		}
		err = s.ask(ctx, http.MethodPost, session(id)+"/exec", map[string]any{
			"cmd": []string{"python3", "-c", holdOf, benchHost, p.port, strconv.Itoa(n)}, "timeout_seconds": 300,
		}, &got)
		if err == nil {
			if _, err = fmt.Sscan(got.Stdout, &before, &after); err != nil {
				err = fmt.Errorf("%w: %.200q %.500q", err, got.Stdout, got.Stderr)
			}
		}
		return before, after, err
	}
	// all holds n connections of each session. It returns the server's memory, the number of connections, and the largest growth of an
	// agent.
	all := func(n int) (resident, open, agent int64, err error) {
		p.expect(len(ids))
		var programs sync.WaitGroup
		var mu sync.Mutex
		for _, id := range ids {
			programs.Go(func() {
				before, after, failed := hold(id, n)
				mu.Lock()
				defer mu.Unlock()
				if agent = max(agent, after-before); failed != nil {
					err = errors.Join(err, failed)
					p.release()
				}
			})
		}
		p.wait()
		resident, failed := s.resident()
		open = p.open.Load()
		p.release()
		programs.Wait()
		return resident, open, agent, errors.Join(err, failed)
	}
	before, _, _, err := all(1) // by now each session has made its one-time allocations
	if err != nil {
		return err
	}
	after, open, agent, err := all(benchEach)
	if err != nil {
		return err
	}
	const what = "memory of each of %d connections that are open at once, "
	out.put(fmt.Sprintf(what+"in the server", open), "64 KiB", "%.1f KiB", float64(after-before)/1024/float64(open-benchSessions))
	out.put(fmt.Sprintf(what+"in the agent", open), "64 KiB", "%.1f KiB", float64(agent)/(benchEach-1))
	return closeSession(ctx, s, ids...)
}

// outside is a server that sandboxes can reach by a name. It echoes the first byte of a connection, and keeps the connection open.
type outside struct {
	listener net.Listener
	port     string
	resolver net.PacketConn
	open     atomic.Int64

	mu    sync.Mutex
	left  int           // programs that are not ready yet
	ready chan struct{} // closed when all are ready
	gone  chan struct{} // closed when connections must end
}

func startOutside() (*outside, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	names, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		l.Close()
		return nil, err
	}
	p := &outside{listener: l, port: strconv.Itoa(l.Addr().(*net.TCPAddr).Port), resolver: names, ready: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	go p.resolve()
	return p, nil
}

func (p *outside) stop() {
	p.listener.Close()
	p.resolver.Close()
}

// serve echoes the first byte. A second byte means that its program is ready.
func (p *outside) serve(c net.Conn) {
	defer c.Close()
	p.mu.Lock()
	gone := p.gone
	p.mu.Unlock()
	p.open.Add(1)
	defer p.open.Add(-1)
	b := make([]byte, 1)
	if _, err := io.ReadFull(c, b); err != nil {
		return
	}
	if _, err := c.Write(b); err != nil {
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := c.Read(b); err != nil {
				return
			}
			p.count()
		}
	}()
	select {
	case <-gone:
		c.Close()
	case <-ended:
	}
	<-ended
}

// count counts a ready program.
func (p *outside) count() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left--; p.left == 0 {
		close(p.ready)
	}
}

// expect sets the number of the next programs. wait ends when all are ready.
func (p *outside) expect(programs int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.ready, p.gone = programs, make(chan struct{}), make(chan struct{})
}

func (p *outside) wait() {
	p.mu.Lock()
	ready := p.ready
	p.mu.Unlock()
	<-ready
}

// release ends the connections.
func (p *outside) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range []chan struct{}{p.ready, p.gone} {
		select {
		case <-c: // several failed programs may release
		default:
			close(c)
		}
	}
	p.left = 0
}

// resolve answers queries: every name resolves to this machine.
func (p *outside) resolve() {
	buf := make([]byte, 512)
	for {
		n, from, err := p.resolver.ReadFrom(buf)
		if err != nil {
			return
		}
		var q dnsmessage.Message
		if q.Unpack(buf[:n]) != nil || len(q.Questions) != 1 {
			continue
		}
		q.Response, q.Additionals = true, nil
		if q.Questions[0].Type == dnsmessage.TypeA {
			q.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 60},
				Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			}}
		}
		if raw, err := q.Pack(); err == nil {
			_, _ = p.resolver.WriteTo(raw, from)
		}
	}
}
