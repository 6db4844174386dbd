//go:build linux

package guest

import (
	"maps"
	"os"
	"slices"
	"sort"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/guest/process"
	"github.com/belljar/belljar/internal/agent/guest/spool"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/forkexec"
)

// exec is one command, from its request until it is forgotten.
type exec struct {
	a    *Agent
	spec wire.Exec

	ready    chan struct{} // closed when started or startErr is known
	startErr error
	executed chan struct{} // closed when no child of the agent still has its descriptors before an execve

	// Set by launch, before ready.
	began    time.Time
	pid      int // of the first process, which leads a session and a process group with that id
	keeper   forkexec.Child
	program  *forkexec.Program // the keeper's
	settled  bool              // only the keeper uses the program's memory: its child has called execve or is dead
	status   *os.File          // socket for the keeper's reports
	cut      wire.Cause        // why it was killed before its execve; else ""
	group    *process.Group    // nil without a cgroup
	outlets  []*outlet
	meter    *meter   // of its processor time; set by its life
	terminal *os.File // the PTY's master, nil with pipes

	command *command      // set for a command of a shell, which has no process of its own
	host    *shellProcess // set for a shell
	parked  *parked       // set for a parked interpreter
	forker  *parked       // set if an interpreter forked the first process, whose keeper it shares
	warm    bool          // the first process was parked

	// The keeper's reports; fixed before the channel of each is closed.
	exited chan struct{} // the first process has been reaped, or its status is lost
	empty  chan struct{} // no process of the command is left, or the keeper has ended
	reaped chan struct{} // the keeper has ended
	first  *forkexec.Record
	last   *forkexec.Record
	swept  *process.Usage // replaces the keeper's report after kill(-1) killed the keeper too
	ended  time.Time      // when exited was closed

	ends chan ending   // requests to end it
	over chan struct{} // closed when the outcome is known and no process is left

	mu       sync.Mutex // guards the following fields
	change   *sync.Cond // signals the senders, the outlets and the feeder
	spool    spool.Spool
	drain    bool // the first process has ended: read beyond the spool's limit
	inlet    *inlet
	attached *attachment
	exit     *wire.Exit
}

// ending is a request to end a command.
type ending struct {
	cause wire.Cause
	grace time.Duration
}

func newExec(a *Agent, spec wire.Exec) *exec {
	e := &exec{
		a: a, spec: spec, ready: make(chan struct{}), executed: make(chan struct{}),
		exited: make(chan struct{}), empty: make(chan struct{}), reaped: make(chan struct{}), over: make(chan struct{}),
		ends: make(chan ending, 1), spool: spool.Spool{Limit: spec.OutputLimit},
	}
	e.change = sync.NewCond(&e.mu)
	return e
}

// start starts a command, or finds the one with that id. It returns when the command runs.
func (a *Agent) start(spec wire.Exec) (e *exec, known bool, err error) {
	if err := checkExec(spec); err != nil {
		return nil, false, err
	}
	a.mu.Lock()
	if a.closing {
		a.mu.Unlock()
		return nil, false, fault.ErrDisconnected
	}
	if e, known = a.execs[spec.ID]; known {
		a.mu.Unlock()
		<-e.ready
		return e, true, e.startErr
	}
	if len(a.execs) >= maxExecs {
		a.mu.Unlock()
		return nil, false, fault.New(wire.CodeTooLarge, "agent has %d execs already; forget some", maxExecs)
	}
	e = newExec(a, spec)
	if spec.Shell != nil {
		if err := a.enqueue(e); err != nil {
			a.mu.Unlock()
			return nil, false, err
		}
	} else {
		a.launching[e] = struct{}{}
	}
	a.execs[spec.ID] = e
	a.lives.Add(1)
	a.mu.Unlock()

	if e.command != nil {
		e.startErr = e.command.enter()
	} else if e.warm = a.warmUp(e); !e.warm {
		e.startErr = e.launchTracked()
	}
	if e.startErr != nil {
		a.mu.Lock()
		delete(a.execs, spec.ID)
		a.mu.Unlock()
		a.lives.Done()
	} else {
		e.run()
	}
	close(e.ready)
	return e, false, e.startErr
}

// launchTracked launches a command and records it as starting meanwhile.
func (e *exec) launchTracked() error {
	a := e.a
	a.launches.RLock()
	defer a.launches.RUnlock()
	err := e.launch()
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.launching, e)
	close(e.executed)
	if err == nil {
		a.alive[e] = struct{}{}
	}
	return err
}

// awaitLaunches waits for the commands that are being started. Before its execve, a child has a copy of every descriptor, and the
// kernel executes no file that is open for writing.
func (a *Agent) awaitLaunches() {
	a.mu.Lock()
	launching := slices.Collect(maps.Keys(a.launching))
	a.mu.Unlock()
	for _, e := range launching {
		<-e.executed
	}
}

// find returns a command that has been started.
func (a *Agent) find(id string) (*exec, error) {
	a.mu.Lock()
	e := a.execs[id]
	a.mu.Unlock()
	if e != nil {
		<-e.ready
	}
	if e == nil || e.startErr != nil {
		return nil, fault.New(wire.CodeNotFound, "no exec %q", id)
	}
	return e, nil
}

// signal performs a Kill for a command that has not ended.
func (a *Agent) signal(id string, k wire.Kill) error {
	e, err := a.find(id)
	if err != nil {
		return err
	}
	return e.signal(k)
}

func (e *exec) signal(k wire.Kill) error {
	e.mu.Lock()
	ended := e.exit != nil
	e.mu.Unlock()
	if ended {
		return fault.New(wire.CodeNotFound, "exec %q has ended", e.spec.ID)
	}
	if k.End {
		if k.GraceMS < 0 {
			return fault.Invalid("grace of %d ms", k.GraceMS)
		}
		e.end(ending{cause: wire.CauseEnded, grace: milliseconds(k.GraceMS)})
		return nil
	}
	if k.Signal < 1 || k.Signal > 64 {
		return fault.Invalid("no signal %d", k.Signal)
	}
	if e.command != nil {
		return e.command.signal(unix.Signal(k.Signal))
	}
	select {
	case <-e.exited: // the pid may be reused by now
		return fault.New(wire.CodeNotFound, "exec %q has ended", e.spec.ID)
	default:
	}
	if err := unix.Kill(-e.pid, unix.Signal(k.Signal)); err != nil && err != unix.ESRCH {
		return err
	}
	return nil
}

// end asks the command's life to end it. A pending request is replaced by a more urgent one.
func (e *exec) end(want ending) {
	for {
		select {
		case e.ends <- want:
			return
		case waiting := <-e.ends:
			if waiting.grace < want.grace {
				want = waiting
			}
		}
	}
}

// forget drops a command that has ended. Survivors continue without an id.
func (a *Agent) forget(id string) error {
	a.mu.Lock()
	e := a.execs[id]
	a.mu.Unlock()
	if e == nil {
		return nil
	}
	<-e.ready
	e.mu.Lock()
	ended := e.exit != nil || e.startErr != nil
	e.mu.Unlock()
	if !ended {
		return fault.Invalid("exec %q is running", id)
	}
	a.mu.Lock()
	if a.execs[id] == e {
		delete(a.execs, id)
	}
	a.mu.Unlock()
	e.mu.Lock()
	at := e.attached
	e.detach(at)
	e.spool.Ack(e.spool.Next)
	e.mu.Unlock()
	return nil
}

// listBatch is the number of commands in one reply.
const listBatch = 256 // fits a frame with notes of maximum length, however JSON escapes them

func (s *stream) list() error {
	s.a.mu.Lock()
	execs := slices.Collect(maps.Values(s.a.execs))
	s.a.mu.Unlock()
	infos := make([]wire.ExecInfo, 0, len(execs))
	for _, e := range execs {
		<-e.ready
		if e.startErr != nil {
			continue
		}
		e.mu.Lock()
		infos = append(infos, wire.ExecInfo{
			ID: e.spec.ID, Running: e.exit == nil, Position: e.spool.Next, Acked: e.spool.First, Exit: e.exit,
			Note: e.spec.Note, PTY: e.size(),
		})
		e.mu.Unlock()
	}
	sort.Slice(infos, func(i, j int) bool { return infos[i].ID < infos[j].ID })
	for {
		n := min(len(infos), listBatch)
		if err := s.reply(wire.Reply{Execs: infos[:n], More: n < len(infos)}); err != nil {
			return fault.ErrDisconnected
		}
		if infos = infos[n:]; len(infos) == 0 {
			return nil
		}
	}
}

func milliseconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(n, most)) * time.Millisecond
}
