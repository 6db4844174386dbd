//go:build linux

package warden

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/lockfile"
)

// Command is the argument that makes a program run as a warden.
const Command = "warden"

// Config is the configuration of a warden's process. As JSON it is its argument.
type Config struct {
	ListenFD int    `json:"listen_fd"` // a listening Unix socket
	Path     string `json:"path"`      // of the socket
	Own      bool   `json:"own"`       // ends with its client
}

// request is a client's request: to watch a group, or for the figures of one.
type request struct {
	Watch   *Group `json:"watch,omitempty"`
	Figures string `json:"figures,omitempty"`
}

// reply answers a request.
type reply struct {
	Error   string  `json:"error,omitempty"`
	Figures Figures `json:"figures"`
}

// process is a warden's process.
type process struct {
	*Warden
	listener *net.UnixListener
	path     string
	own      bool
	done     chan error // receives the result of the process

	mu      sync.Mutex
	clients int
}

// Serve runs a warden's process. It returns when there is no group to watch and no client.
func Serve(config []byte) error {
	var cfg Config
	if err := json.Unmarshal(config, &cfg); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGPIPE)
	var most unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &most) == nil {
		most.Cur = most.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &most) // as many as allowed
	}
	file := os.NewFile(uintptr(cfg.ListenFD), "listener")
	listener, err := net.FileListener(file)
	file.Close()
	if err != nil {
		return fmt.Errorf("listener: %w", err)
	}
	sock, ok := listener.(*net.UnixListener)
	if !ok {
		return errors.New("the listener is not a Unix socket")
	}
	sock.SetUnlinkOnClose(false)
	raisePriority()
	w, err := New(nil)
	if err != nil {
		return err
	}
	p := &process{Warden: w, listener: sock, path: cfg.Path, own: cfg.Own, done: make(chan error, 1)}
	go p.accept()
	tick := time.NewTicker(tidyEvery)
	for {
		select {
		case err := <-p.done:
			return err
		case <-tick.C:
			p.leave()
		}
	}
}

// accept serves clients.
func (p *process) accept() {
	for {
		conn, err := p.listener.AcceptUnix()
		if err != nil {
			p.done <- err
			return
		}
		p.mu.Lock()
		p.clients++
		p.mu.Unlock()
		go func() {
			p.serve(conn)
			conn.Close()
			p.mu.Lock()
			p.clients--
			p.mu.Unlock()
			p.leave()
		}()
	}
}

// serve answers one client.
func (p *process) serve(conn *net.UnixConn) {
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	for {
		var q request
		if in.Decode(&q) != nil {
			return
		}
		var a reply
		switch {
		case q.Watch != nil:
			if err := p.Watch(*q.Watch); err != nil {
				a.Error = err.Error()
			}
		case q.Figures != "":
			a.Figures = p.Figures(q.Figures)
		default:
			a.Error = "unknown request"
		}
		if out.Encode(a) != nil {
			return
		}
	}
}

// leave ends the process if it has no clients. It holds the socket's lock, so that no client connects
// in between.
func (p *process) leave() {
	p.mu.Lock()
	clients := p.clients
	p.mu.Unlock()
	if clients > 0 {
		return
	}
	if !p.own {
		p.abandon()
		if p.Watched() > 0 {
			return
		}
	}
	lock, err := lockfile.Open(lockOf(p.path), os.O_RDWR|os.O_CREATE, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, os.ErrNotExist) {
		p.end() // the folder is gone: no client can connect
		return
	}
	if err != nil {
		return // a client is connecting
	}
	defer lock.Close()
	p.mu.Lock()
	clients = p.clients
	p.mu.Unlock()
	if clients > 0 {
		return
	}
	os.Remove(p.path)
	os.Remove(lock.Name())
	p.end()
}

func (p *process) end() {
	select {
	case p.done <- nil:
	default:
	}
}

// lockOf returns the lock of a socket's name.
func lockOf(path string) string { return path + ".lock" }
