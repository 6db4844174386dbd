//go:build linux

// Command forger is a compromised agent: it obeys the programs of its sandbox. It answers the host's requests like the real agent,
// with two exceptions. Each relay that the host opens belongs to the next program that connects to 127.0.0.53:1080, and each stream
// of a connection to the next one at port 1081: the program's bytes go to the host unchanged. test/security attacks a belljar with
// this agent embedded.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/keep"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/warden"
)

func main() {
	if err := serve(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "forger:", err)
		os.Exit(125)
	}
}

func serve(args []string) error {
	switch {
	case len(args) == 3 && args[1] == keep.Command: // runs on the host, where nothing is forged
		return keep.Run([]byte(args[2]))
	case len(args) == 3 && args[1] == warden.Command:
		return warden.Serve([]byte(args[2]))
	case len(args) != 2:
		return errors.New("one argument is required: the configuration")
	}
	cfg, err := guest.ParseConfig([]byte(args[1]))
	if err != nil {
		return err
	}
	if err := guest.Confine(cfg); err != nil {
		return err
	}
	var l net.Listener
	if cfg.Stdio {
		l = wire.NewMuxAgent(stdio{}) // it closes both at the end of the input; elsewhere, that would be immediately
	} else {
		file := os.NewFile(uintptr(cfg.ListenFD), "listener")
		l, err = net.FileListener(file)
		file.Close()
		if err != nil {
			return err
		}
	}
	agent, err := guest.New(cfg)
	if err != nil {
		return err
	}
	f := &forger{agent: agent, programs: map[wire.Op]chan net.Conn{wire.OpRelay: make(chan net.Conn), wire.OpAccept: make(chan net.Conn)}}
	go f.accept(l)
	<-agent.Done()
	return nil
}

// stdio is a byte stream over stdin and stdout.
type stdio struct{}

func (stdio) Read(b []byte) (int, error)  { return os.Stdin.Read(b) }
func (stdio) Write(b []byte) (int, error) { return os.Stdout.Write(b) }
func (stdio) Close() error                { return errors.Join(os.Stdin.Close(), os.Stdout.Close()) }

type forger struct {
	agent    *guest.Agent
	programs map[wire.Op]chan net.Conn // waiting for a stream
	open     bool
}

// accept serves the host's streams until the host is gone.
func (f *forger) accept(l net.Listener) {
	defer f.agent.Close()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go f.handle(c)
	}
}

// handle serves one stream of the host. The agent gets those that are useless to programs, from their first byte on.
func (f *forger) handle(c net.Conn) {
	var reply bytes.Buffer
	r := wire.NewReader(io.TeeReader(c, &reply))
	var request wire.Request
	_, err := r.Read()
	if err == nil {
		var frame wire.Frame
		if frame, err = r.Read(); err == nil {
			err = frame.JSON(&request)
		}
	}
	waiting, forged := f.programs[request.Op]
	if err != nil || !forged {
		f.agent.Handle(&replayed{Conn: c, r: io.MultiReader(&reply, c)})
		return
	}
	defer c.Close()
	w := wire.NewWriter(c)
	if request.Op == wire.OpRelay {
		if err := f.listen(); err != nil {
			fmt.Fprintln(os.Stderr, "forger:", err)
			return
		}
		if w.JSON(wire.KindHello, wire.Hello{Protocol: wire.Protocol, Version: wire.Version, Features: []string{wire.FeatureRelay}}) != nil ||
			w.JSON(wire.KindReply, wire.Reply{Done: true}) != nil {
			return
		}
	}
	var program net.Conn
	first, got := make([]byte, 1), make(chan int, 1)
	go func() {
		n, _ := c.Read(first)
		got <- n
	}()
	select {
	case program = <-waiting:
	case <-got: // the host sends nothing before this side does: it is gone
		return
	}
	defer program.Close()
	if request.Op == wire.OpAccept {
		fmt.Fprintln(program, request.Conn)
	}
	go func() {
		_, _ = program.Write(first[:<-got])
		_, _ = io.Copy(program, c)
		program.Close()
		c.Close() // the host may be waiting for this side to read
	}()
	_, _ = io.Copy(c, program)
}

// listen listens for programs. Only this listens in the place of the agent's relay.
func (f *forger) listen() error {
	if f.open {
		return nil
	}
	for op, port := range map[wire.Op]int{wire.OpRelay: wire.FrontPort, wire.OpAccept: wire.FrontPort + 1} {
		l, err := net.Listen("tcp4", net.JoinHostPort(wire.ResolverAddr, strconv.Itoa(port)))
		if err != nil {
			return err
		}
		go func() {
			for {
				c, err := l.Accept()
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if err == nil { // otherwise there are too many
					f.programs[op] <- c
				}
			}
		}()
	}
	f.open = true
	return nil
}

// replayed is a connection whose first bytes have been read before.
type replayed struct {
	net.Conn
	r io.Reader
}

func (c *replayed) Read(p []byte) (int, error) { return c.r.Read(p) }
