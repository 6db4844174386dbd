//go:build linux

package relay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/test/leak"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/nest"
	"github.com/belljar/belljar/test/sockdir"
)

// inside marks a process that has its own network namespace, like an agent.
const inside = "RELAY_TEST_INSIDE"

func TestMain(m *testing.M) {
	if os.Getenv(inside) != "" {
		if err := loopbackUp(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(leak.Main(m))
	}
	os.Exit(nest.Main(m.Run)) // Ports names programs among the first 512 processes: a busy machine has more
}

// TestInside runs the tests of this file in a network namespace.
func TestInside(t *testing.T) {
	if os.Getenv(inside) != "" {
		t.Skip("inside already")
	}
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^TestRelay", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		need.Missing(t, "user namespaces: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if passed := strings.Count(string(out), "--- PASS: TestRelay"); passed < 6 {
		t.Errorf("%d tests passed:\n%s", passed, out)
	}
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

// start starts an agent and returns its client.
func start(t *testing.T) *agent.Client {
	t.Helper()
	if os.Getenv(inside) == "" {
		t.Skip("TestInside runs it")
	}
	a, err := guest.New(guest.Config{Workspace: t.TempDir(), Relay: true})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(sockdir.New(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- a.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(a.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return agent.New(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", l.Addr().String())
	})
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// relay opens a relay that calls answer with each question, one at a time.
func relay(t *testing.T, c *agent.Client, answer func(*agent.Relay, wire.Ask), ports ...uint16) *agent.Relay {
	t.Helper()
	r, err := c.Relay(within(t), ports)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			a, err := r.Next()
			if err != nil {
				return
			}
			answer(r, a)
		}
	})
	t.Cleanup(func() {
		r.Close()
		all.Wait()
	})
	return r
}

// allow allows all names, and makes serve handle each connection.
func allow(t *testing.T, c *agent.Client, serve func(*agent.Conn)) func(*agent.Relay, wire.Ask) {
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	return func(r *agent.Relay, a wire.Ask) {
		if a.Open == nil {
			_ = r.Answer(wire.Answer{ID: a.ID, OK: true}) // the relay may be closed
			return
		}
		all.Go(func() {
			conn, err := c.Accept(t.Context(), a.ID)
			if err != nil {
				return // the relay was closed
			}
			defer conn.Close()
			serve(conn)
		})
	}
}

func echo(c *agent.Conn) { _, _ = io.Copy(c, c) }

// lookup asks the agent's resolver.
func lookup(t *testing.T, name, network string) ([]netip.Addr, error) {
	t.Helper()
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, "127.0.0.53:53")
	}}
	return r.LookupNetIP(within(t), "ip4", name+".")
}

// dial connects to an address of a name.
func dial(t *testing.T, addr netip.Addr, port uint16) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", netip.AddrPortFrom(addr, port).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// pong exchanges a text.
func pong(c net.Conn, text string) error {
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		return fmt.Errorf("%q, %w", got, err)
	}
	return nil
}

// Names, connections and relays open and close concurrently. The last relay works like the first.
func TestRelayStorm(t *testing.T) {
	c := start(t)
	open := func() { relay(t, c, allow(t, c, echo), 80, 443) }
	open()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 20 {
				network := []string{"udp", "tcp"}[n%2]
				if list, err := lookup(t, fmt.Sprintf("name%d.example", (i+n)%12), network); err == nil {
					if conn, err := net.Dial("tcp", netip.AddrPortFrom(list[0], 443).String()); err == nil {
						_ = pong(conn, "in the storm")
						conn.Close()
					}
				}
			}
		})
	}
	for range 5 {
		open()
	}
	all.Wait()
	for i := range 12 {
		list, err := lookup(t, fmt.Sprintf("name%d.example", i), "udp")
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		if err := pong(dial(t, list[0], 80), "after it"); err != nil {
			t.Error(err)
		}
	}
}

// An agent has as many names as its limit allows, and keeps them.
func TestRelayBoundsNames(t *testing.T) {
	c := start(t)
	relay(t, c, allow(t, c, echo))
	for i := range wire.MaxNames {
		list, err := lookup(t, fmt.Sprintf("n%d.example", i), "udp")
		if err != nil {
			t.Fatalf("name %d: %v", i, err)
		}
		if i == wire.MaxNames-1 && list[0].String() != "127.64.1.1" {
			t.Errorf("the last name is at %s", list[0])
		}
	}
	var missing *net.DNSError
	if list, err := lookup(t, "more.example", "udp"); !errors.As(err, &missing) || !missing.IsNotFound {
		t.Errorf("one name too many: %v, %v", list, err)
	}
	if list, err := lookup(t, "n0.example", "udp"); err != nil || list[0].String() != wire.FirstName {
		t.Errorf("%v, %v", list, err)
	}
}

// A host that does not answer has a limited number of questions, which end with the relay.
func TestRelayBoundsQuestions(t *testing.T) {
	c := start(t)
	asked := make(chan wire.Ask, 2*wire.MaxAsked)
	r := relay(t, c, func(_ *agent.Relay, a wire.Ask) { asked <- a })
	results := make(chan error, wire.MaxAsked)
	for i := range wire.MaxAsked {
		go func() {
			_, err := query(fmt.Sprintf("n%d.example", i))
			results <- err
		}()
	}
	seen := map[string]bool{}
	for range wire.MaxAsked {
		a := <-asked
		if seen[a.Name] {
			t.Errorf("%s is asked for twice", a.Name)
		}
		seen[a.Name] = true
	}
	if rcode, err := query("more.example"); rcode != 2 || err != nil {
		t.Errorf("one question too many: code %d, %v; want a failure of the server", rcode, err)
	}
	r.Close()
	for range wire.MaxAsked {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

// query sends one query, and returns the code of the reply.
func query(name string) (rcode byte, err error) {
	c, err := net.Dial("udp", "127.0.0.53:53")
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return queryOver(c, name)
}

func queryOver(c net.Conn, name string) (rcode byte, err error) {
	q := []byte{0, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for label := range strings.SplitSeq(name, ".") {
		q = append(append(q, byte(len(label))), label...)
	}
	q = append(q, 0, 0, 1, 0, 1)
	if _, err := c.Write(q); err != nil {
		return 0, err
	}
	var reply [512]byte
	_, err = c.Read(reply[:])
	return reply[3] & 15, err
}

// A name for which there are too few descriptors leaves no listener behind: the next name gets its address.
func TestRelayFewDescriptors(t *testing.T) {
	c := start(t)
	opened := make(chan string, 1)
	relay(t, c, func(r *agent.Relay, a wire.Ask) {
		if a.Open != nil {
			opened <- a.Open.Host
		}
		_ = r.Answer(wire.Answer{ID: a.ID, OK: a.Open == nil})
	}, 80, 443)
	conn, err := net.Dial("udp", "127.0.0.53:53")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	giveBack := leaveDescriptors(t, 1)
	rcode, err := queryOver(conn, "a.example")
	giveBack()
	if rcode != 3 || err != nil {
		t.Errorf("with one descriptor for two ports: code %d, %v", rcode, err)
	}
	list, err := lookup(t, "b.example", "udp")
	if err != nil {
		t.Fatal(err)
	}
	program, err := net.Dial("tcp", netip.AddrPortFrom(list[0], 80).String())
	if err == nil { // else it was refused before the host's answer
		defer program.Close()
	}
	if host := <-opened; host != "b.example" {
		t.Error("a connection to b.example is one to the name that failed")
	}
}

// leaveDescriptors opens descriptors until only a few are left.
func leaveDescriptors(t *testing.T, few int) (giveBack func()) {
	t.Helper()
	var usual unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &usual); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: usual.Max}); err != nil {
		t.Fatal(err)
	}
	var taken []int
	for {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		taken = append(taken, fd)
	}
	free := func(list []int) {
		for _, fd := range list {
			_ = unix.Close(fd)
		}
	}
	free(taken[:few])
	return func() {
		free(taken[few:])
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &usual); err != nil {
			t.Error(err)
		}
	}
}

// A program that binds one of the agent's addresses or ports harms only itself.
func TestRelayTakenPorts(t *testing.T) {
	c := start(t)
	own, err := net.Listen("tcp", "127.0.0.53:1080")
	if err != nil {
		t.Fatal(err)
	}
	var refused *wire.Error
	if _, err := c.Relay(within(t), []uint16{443}); !errors.As(err, &refused) || refused.Code != wire.CodeExists {
		t.Errorf("with the front taken: %v", err)
	}
	own.Close()
	web, err := net.Listen("tcp4", "0.0.0.0:80")
	if err != nil {
		t.Fatal(err)
	}
	defer web.Close()
	relay(t, c, allow(t, c, echo), 80, 443)
	list, err := lookup(t, "a.example", "udp")
	if err != nil {
		t.Fatal(err)
	}
	if err := pong(dial(t, list[0], 443), "hello"); err != nil {
		t.Error(err)
	}
	relay(t, c, allow(t, c, echo), 80)
	if list, err := lookup(t, "b.example", "udp"); err == nil {
		t.Errorf("a name without a port: %v", list)
	}
	if _, err := net.Dial("tcp", netip.AddrPortFrom(list[0], 443).String()); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("a port that no relay has: %v", err)
	}
}

// A program that does not read blocks the host after a limited number of bytes, and gets all of them in the end. The same holds
// in the other direction.
func TestRelayPressure(t *testing.T) {
	c := start(t)
	conns := make(chan *agent.Conn)
	done := make(chan struct{})
	relay(t, c, allow(t, c, func(conn *agent.Conn) {
		conns <- conn
		<-done
	}), 443)
	defer close(done)
	list, err := lookup(t, "a.example", "udp")
	if err != nil {
		t.Fatal(err)
	}
	program := dial(t, list[0], 443).(*net.TCPConn)
	host := <-conns
	for name, way := range map[string][2]net.Conn{"down": {host, program}, "up": {program, host}} {
		sent := make(chan int)
		go func() {
			n := 0
			buf := make([]byte, 64<<10)
			for n < 64<<20 {
				if _, err := way[0].Write(buf); err != nil {
					t.Errorf("%s: %v", name, err)
					break
				}
				n += len(buf)
			}
			way[0].(interface{ CloseWrite() error }).CloseWrite()
			sent <- n
		}()
		// No side reads, so the writer cannot end: the kernel and the agent buffer far less.
		first := make([]byte, 1)
		if _, err := io.ReadFull(way[1], first); err != nil {
			t.Fatal(err)
		}
		select {
		case <-sent:
			t.Errorf("%s: all was sent, and nothing read", name)
		default:
		}
		got, err := io.Copy(io.Discard, way[1])
		if want := <-sent; err != nil || int(got)+1 != want {
			t.Errorf("%s: %d of %d bytes, %v", name, got+1, want, err)
		}
	}
}
