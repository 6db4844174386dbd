//go:build linux

package guest

import (
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
	"github.com/belljar/belljar/internal/agent/guest/process"
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
	oomScore string // of commands; "" for the agent's own
	// execFilter is what every command gets besides.
	execFilter []unix.SockFilter
	traits     traits
	waits      waiting
	group      *process.Groups // nil without a cgroup
	reaper     *process.Reaper // nil unless Config.Init
	lease      *lease
	lifeline   *os.File
	buffers    sync.Pool     // of *[]byte, what one read of output takes
	programs   forkexec.Pool // of the births of commands

	births sync.RWMutex // held for reading while an exec is started

	mu        sync.Mutex // guards what follows
	execs     map[string]*exec
	alive     map[*exec]struct{} // those with processes, also when forgotten
	shells    map[string]*shell  // by name
	unborn    map[*exec]struct{} // those without their first process yet
	conns     map[io.Closer]struct{}
	closing   bool
	handlers  sync.WaitGroup
	lives     sync.WaitGroup
	stop      chan struct{} // closed when closing begins
	done      chan struct{}
	closeOnce sync.Once
}

// waiting is what is found out about terminals when there is the first one; see [Agent.plain].
type waiting struct {
	once sync.Once
	yes  bool
}

// New returns an agent that works with cfg and takes over its descriptors. [Agent.Close] ends it.
func New(cfg Config) (*Agent, error) {
	if cfg.Workspace == "" {
		cfg.Workspace = file.Path
	}
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
	root, err := os.OpenRoot(cfg.Workspace)
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
		own: identity.Current(), traits: ownTraits(),
		execs: make(map[string]*exec), alive: make(map[*exec]struct{}), unborn: make(map[*exec]struct{}), shells: make(map[string]*shell), conns: make(map[io.Closer]struct{}),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	if !cfg.Unscored {
		a.oomScore = childOOMScore()
	}
	catchSignals()
	a.buffers.New = func() any {
		b := make([]byte, maxChunk)
		return &b
	}
	a.files = file.New(cfg.Workspace, root, a.own, &a.buffers, a.awaitBirths)
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
	a.lease = newLease(time.Duration(cfg.LeaseMS)*time.Millisecond, func() { go a.Close() })
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

// childOOMScore is that of commands: 500 above our own, so that the kernel takes them before the agent.
func childOOMScore() string {
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	n, _ := strconv.Atoi(strings.TrimSpace(string(own)))
	if err != nil {
		n = 0
	}
	return strconv.Itoa(min(n+500, 1000))
}

// watchLifeline ends the agent when its creator's end of the lifeline is closed. Nothing else comes over it.
func (a *Agent) watchLifeline() {
	var b [64]byte
	for {
		if _, err := a.lifeline.Read(b[:]); err != nil {
			a.Close()
			return
		}
	}
}

// Serve accepts streams from l and handles each, until l fails or the agent is closed, which closes l and is no error.
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
			if crowded(err) && a.pause() {
				continue // it passes, and ending for it would end the sandbox
			}
			return fmt.Errorf("accept: %w", err)
		}
		go a.Handle(conn)
	}
}

// crowded reports whether an error means that there is no room at the moment.
func crowded(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ENOMEM)
}

// pause lets others end what they do; false if the agent is closing.
func (a *Agent) pause() bool {
	t := time.NewTimer(10 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
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
		conn.Close() // no host waits
		a.group.Stock()
	}
}

// Close kills every command, closes every stream, and returns when all are gone. It may be called twice.
func (a *Agent) Close() error {
	a.closeOnce.Do(func() {
		a.mu.Lock()
		a.closing = true
		close(a.stop)
		if os.Getpid() == 1 && a.cfg.Init {
			// One stroke instead of many. That it finds no process is fine.
			_ = unix.Kill(-1, unix.SIGKILL)
		}
		for c := range a.conns {
			c.Close()
		}
		a.mu.Unlock()
		a.lives.Wait()
		a.handlers.Wait()
		a.lease.end()
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

// Done is closed when the agent is over: closed, out of lease, or without its creator.
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
		LeaseMS: a.lease.length().Milliseconds(), Execs: len(a.execs),
	}
}
