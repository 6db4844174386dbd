//go:build linux

package guest

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/file"
	"github.com/belljar/belljar/internal/agent/guest/identity"
	"github.com/belljar/belljar/internal/agent/guest/lease"
	"github.com/belljar/belljar/internal/agent/guest/process"
	"github.com/belljar/belljar/internal/agent/guest/pty"
	"github.com/belljar/belljar/internal/agent/guest/relay"
	"github.com/belljar/belljar/internal/agent/guest/spool"
	"github.com/belljar/belljar/internal/agent/guest/warm"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/forkexec"
)

// Agent serves one sandbox. Safe for concurrent use.
type Agent struct {
	cfg      Config
	bootID   string
	own      identity.Own
	files    *file.Workspace
	null     *os.File
	oomScore string // of commands; "" keeps the agent's own
	// execFilter is the seccomp filter of every command.
	execFilter []unix.SockFilter
	traits     process.Traits
	waits      pty.Plain
	group      *process.Groups // nil without a cgroup
	reaper     *process.Reaper // nil unless Config.Init
	lease      *lease.Lease
	lifeline   *os.File
	buffers    sync.Pool     // of *[]byte, the buffers for reading output
	programs   forkexec.Pool // processes that start commands
	warm       warm.List[*parked]
	relay      *relay.Relay // nil unless Config.Relay

	launches sync.RWMutex // read-locked while an exec is started

	mu        sync.Mutex // guards the following fields
	execs     map[string]*exec
	alive     map[*exec]struct{} // commands with processes, including forgotten ones
	shells    map[string]*shell  // by name
	launching map[*exec]struct{} // commands that are starting
	conns     map[io.Closer]struct{}
	closing   bool
	handlers  sync.WaitGroup
	lives     sync.WaitGroup
	stop      chan struct{} // closed when closing starts
	done      chan struct{}
	closeOnce sync.Once
}

// New returns an agent with the configuration cfg, whose descriptors it takes over. [Agent.Close] ends it.
func New(cfg Config) (*Agent, error) {
	cfg.Workspace = cmp.Or(cfg.Workspace, file.Path)
	cfg.Secrets = cmp.Or(cfg.Secrets, file.SecretDir)
	filter, err := instructions(cfg.ExecFilter)
	if err != nil {
		return nil, err
	}
	if cfg.LeaseMS < 0 {
		return nil, fmt.Errorf("negative lease of %d ms", cfg.LeaseMS)
	}
	var boot [16]byte
	if _, err := unix.Getrandom(boot[:], 0); err != nil {
		return nil, fmt.Errorf("boot id: %w", err)
	}
	own := identity.Current()
	root, err := file.Open(cfg.Workspace, own)
	if err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		root.Close()
		return nil, err
	}
	a := &Agent{
		cfg: cfg, bootID: hex.EncodeToString(boot[:]), null: null, execFilter: filter,
		own: own, traits: process.OwnTraits(),
		execs: make(map[string]*exec), alive: make(map[*exec]struct{}), launching: make(map[*exec]struct{}), shells: make(map[string]*shell), conns: make(map[io.Closer]struct{}),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	if cfg.Relay {
		a.relay = relay.New()
	}
	if !cfg.Unscored {
		a.oomScore = childOOMScore()
	}
	process.CatchSignals()
	a.buffers.New = func() any {
		return new(make([]byte, spool.MaxChunk))
	}
	a.files = file.New(cfg.Workspace, root, a.own, &a.buffers, a.awaitLaunches)
	if cfg.CgroupFD > 0 {
		unix.CloseOnExec(cfg.CgroupFD)
		a.group = &process.Groups{Dir: os.NewFile(uintptr(cfg.CgroupFD), "cgroup")}
	}
	if cfg.Init {
		if a.reaper, err = process.NewReaper(); err != nil {
			root.Close()
			null.Close()
			return nil, err
		}
	}
	a.lease = lease.New(time.Duration(cfg.LeaseMS)*time.Millisecond, func() { go a.Close() })
	if cfg.LifelineFD > 0 {
		if err := unix.SetNonblock(cfg.LifelineFD, true); err != nil {
			a.Close()
			return nil, fmt.Errorf("lifeline: %w", err)
		}
		unix.CloseOnExec(cfg.LifelineFD)
		a.lifeline = os.NewFile(uintptr(cfg.LifelineFD), "lifeline")
		go a.watchLifeline()
	}
	return a, nil
}

// childOOMScore returns the OOM score of commands: 500 above our own, so that the kernel kills them before the agent.
func childOOMScore() string {
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	n, _ := strconv.Atoi(strings.TrimSpace(string(own)))
	if err != nil {
		n = 0
	}
	return strconv.Itoa(min(n+500, 1000))
}

// watchLifeline ends the agent when its creator's end of the lifeline is closed. No data is sent over it.
func (a *Agent) watchLifeline() {
	var b [64]byte
	for {
		if _, err := a.lifeline.Read(b[:]); err != nil {
			a.Close()
			return
		}
	}
}

// Serve accepts streams from l and handles each, until l fails or the agent is closed. Closing the agent closes l and is no error.
func (a *Agent) Serve(l net.Listener) error {
	if !a.track(l) {
		l.Close()
		return nil
	}
	defer a.untrack(l)
	for {
		conn, err := l.Accept()
		if err != nil {
			if a.isClosing() || errors.Is(err, net.ErrClosed) {
				return nil
			}
			if outOfResources(err) && a.pause() {
				continue // temporary; returning would end the sandbox
			}
			return fmt.Errorf("accept: %w", err)
		}
		go a.Handle(conn)
	}
}

// outOfResources reports whether an error means a temporary lack of resources: ENOSPC is of epoll watches.
func outOfResources(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.ENOSPC)
}

// pause waits briefly for resources; false if the agent is closing.
func (a *Agent) pause() bool {
	select {
	case <-time.After(10 * time.Millisecond):
		return true
	case <-a.stop:
		return false
	}
}

// Handle serves one stream, from the host's hello to its end, and closes it.
func (a *Agent) Handle(conn net.Conn) {
	defer conn.Close()
	if !a.track(conn) {
		return
	}
	defer a.untrack(conn)
	a.serveStream(newStream(a, conn))
	if a.group != nil {
		conn.Close() // the host is not pty.Plain
		a.group.Prepare()
	}
}

// Close kills every command, closes every stream, and returns when all have ended. It is idempotent.
func (a *Agent) Close() error {
	a.closeOnce.Do(func() {
		a.mu.Lock()
		a.closing = true
		close(a.stop)
		if os.Getpid() == 1 && a.cfg.Init {
			// Kill all processes at once. It may find none.
			_ = unix.Kill(-1, unix.SIGKILL)
		}
		for c := range a.conns {
			c.Close()
		}
		a.mu.Unlock()
		a.discardParked()
		a.lives.Wait()
		if a.relay != nil {
			a.relay.Close()
		}
		a.handlers.Wait()
		a.lease.End()
		if a.lifeline != nil {
			a.lifeline.Close()
		}
		if a.reaper != nil {
			a.reaper.Close()
		}
		if a.group != nil {
			a.group.Close()
		}
		a.files.Close()
		a.null.Close()
		close(a.done)
	})
	<-a.done
	return nil
}

// Done is closed when the agent has ended: closed, with an expired lease, or without its creator.
func (a *Agent) Done() <-chan struct{} { return a.done }

// track registers c to be closed with the agent. It refuses when the agent is closing or has too many streams.
func (a *Agent) track(c io.Closer) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closing || len(a.conns) >= maxStreams {
		return false
	}
	a.conns[c] = struct{}{}
	a.handlers.Add(1)
	return true
}

func (a *Agent) untrack(c io.Closer) {
	a.mu.Lock()
	delete(a.conns, c)
	a.mu.Unlock()
	a.handlers.Done()
}

func (a *Agent) isClosing() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closing
}

func (a *Agent) info() *wire.Info {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &wire.Info{
		BootID: a.bootID, Build: a.cfg.Build, Pid: os.Getpid(), UID: a.own.ID.UID, GID: a.own.ID.GID, Cgroup: a.group != nil,
		LeaseMS: a.lease.Length().Milliseconds(), Execs: len(a.execs),
	}
}
