//go:build linux

// Command belljar-agent is the program inside every sandbox: package guest as a process. Its only argument is the JSON of a
// guest.Config. It is meant to be PID 1, and to hold nothing of the host except the descriptors in its config.
//
// It exits with 0 at its end (lease, lifeline), and with 125 when it cannot start.
//
// With "keep" before its argument it is no agent: it looks after a sandbox from outside, as package keep. The two are one
// program because a host has thousands of either, and this is the smallest one. With "warden" it holds the programs of an
// installation's sandboxes at their memory limit, as package warden. With "workspace" it reports that the machine of a
// sandbox elsewhere is available, as package health.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/guest/health"
	"github.com/belljar/belljar/internal/agent/keep"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/warden"
)

func main() { os.Exit(run(os.Args, os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	if err := serve(args); err != nil {
		fmt.Fprintln(stderr, "belljar-agent:", err)
		return 125
	}
	return 0
}

func serve(args []string) error {
	if len(args) == 3 && args[1] == keep.Command {
		trim()
		return keep.Run([]byte(args[2]))
	}
	if len(args) == 3 && args[1] == warden.Command {
		trim()
		return warden.Serve([]byte(args[2]))
	}
	if len(args) == 3 && args[1] == health.Command {
		trim()
		return health.Run([]byte(args[2]))
	}
	if len(args) != 2 {
		return errors.New("one argument is required: the configuration")
	}
	cfg, err := guest.ParseConfig([]byte(args[1]))
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if err := guest.Confine(cfg); err != nil {
		return err
	}
	if err := harden(); err != nil {
		return err
	}
	trim()
	var l net.Listener
	switch {
	case cfg.Stdio:
		conn, err := takeStdio()
		if err != nil {
			return err
		}
		l = wire.NewMuxAgent(conn)
	case cfg.ListenFD > 0:
		file := os.NewFile(uintptr(cfg.ListenFD), "listener")
		var err error
		l, err = net.FileListener(file) // makes a duplicate with close-on-exec
		file.Close()
		if err != nil {
			return fmt.Errorf("listener: %w", err)
		}
	default:
		return errors.New("configuration has neither listen_fd nor stdio")
	}
	a, err := guest.New(cfg)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- a.Serve(l) }()
	select {
	case <-a.Done():
		return nil
	case err := <-served:
		a.Close()
		return err
	}
}

// harden isolates this process from the sandbox's programs, and its descriptors from theirs.
func harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("dumpable: %w", err)
	}
	for fd := range 3 { // the next file opened would take a missing descriptor, and programs would inherit it
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			if _, err := unix.Open(os.DevNull, unix.O_RDWR, 0); err != nil {
				return fmt.Errorf("standard descriptor %d: %w", fd, err)
			}
		}
	}
	if err := unix.CloseRange(3, ^uint(0)>>32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("descriptors: %w", err)
	}
	if os.Getpid() == 1 && os.Geteuid() == 0 {
		return nil // no program inside may signal this process, but the host may
	}
	// The signals are caught, because exec would inherit ignored ones. The channel is not read. Signals of faults are
	// included: a program with the same user could end this process with one. A real fault still ends it.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGALRM, unix.SIGVTALRM, unix.SIGPIPE, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGXCPU, unix.SIGXFSZ,
		unix.SIGABRT, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGSEGV, unix.SIGSTKFLT, unix.SIGSYS, unix.SIGTRAP)
	return nil
}

// trim trades a little speed for a small idle agent: a host may run thousands. A caller that has already set these values
// in the environment avoids two stops of the world.
func trim() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(25)
	debug.SetMemoryLimit(64 << 20)
}

// stdio is a byte stream over the descriptors of stdin and stdout.
type stdio struct{ in, out *os.File }

func (s stdio) Read(b []byte) (int, error)  { return s.in.Read(b) }
func (s stdio) Write(b []byte) (int, error) { return s.out.Write(b) }
func (s stdio) Close() error                { return errors.Join(s.in.Close(), s.out.Close()) }

// takeStdio moves stdin and stdout to other descriptors, close-on-exec, and opens /dev/null in their place.
func takeStdio() (io.ReadWriteCloser, error) {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(null)
	var s stdio
	for fd, file := range []**os.File{&s.in, &s.out} {
		moved, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, fmt.Errorf("move descriptor %d: %w", fd, err)
		}
		if err := syscall.SetNonblock(moved, true); err != nil {
			return nil, err
		}
		*file = os.NewFile(uintptr(moved), "stdio")
		if err := unix.Dup3(null, fd, 0); err != nil {
			return nil, err
		}
	}
	return s, nil
}
