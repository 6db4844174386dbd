//go:build linux

package guest

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/guest/identity"
	"github.com/belljar/belljar/internal/agent/guest/process"
	"github.com/belljar/belljar/internal/agent/guest/sock"
	"github.com/belljar/belljar/internal/agent/guest/warm"
	"github.com/belljar/belljar/internal/agent/wire"
)

const (
	parkTime = time.Minute      // limit for an interpreter to start and to import its modules
	takeTime = 5 * time.Second  // limit to accept a command
	parkIdle = 10 * time.Minute // how long an interpreter waits in a session
)

// parked is an interpreter that was started in advance, and waits for a command with its key.
type parked struct {
	a       *Agent
	key     string
	in      *warm.Interpreter
	program warm.Program
	e       *exec // its processes; it has no id
	control *sock.Control
	forker  *parked     // the interpreter that forked it; else nil
	forks   bool        // it forks the processes that wait
	idle    *time.Timer // nil in a sandbox that is ready for any caller

	filling sync.Mutex // guards the following field
	spare   *parked    // its forked child that waits; nil for none

	mu       sync.Mutex // guards the following field
	children map[int]*exec
}

// errThreads means that an interpreter cannot fork.
var errThreads = errors.New("a waiting interpreter has threads")

// errOther means that a command needs another interpreter.
var errOther = errors.New("another interpreter was started")

// park starts an interpreter for commands like spec, and returns when it waits.
func (a *Agent) park(spec wire.Exec) error {
	if spec.ID == "" {
		spec.ID = "parked"
	}
	if err := checkExec(spec); err != nil {
		return err
	}
	in, key := warm.Of(spec)
	if in == nil {
		return fault.Invalid("%s is no interpreter that can wait", spec.Argv)
	}
	forks, first := a.warm.Begin(key)
	if !first {
		return nil
	}
	defer a.warm.Began(key)
	p := &parked{a: a, key: key, in: in, forks: forks && in.Able && a.group != nil && !spec.KillAll, children: make(map[int]*exec)}
	err := p.start(spec)
	if errors.Is(err, errThreads) {
		a.warm.Threaded(key)
		p = &parked{a: a, key: key, in: in}
		err = p.start(spec)
	}
	if err != nil {
		a.warm.Unfit(key)
		return err
	}
	if !spec.KillAll {
		p.idle = time.AfterFunc(parkIdle, func() {
			if a.warm.Remove(p) {
				p.discard()
			}
		})
	}
	if old, full := a.warm.Add(key, p.forks, p); full {
		old.discard()
	}
	if a.isClosing() {
		a.discardParked()
	}
	return nil
}

// start starts the interpreter, and returns when it waits.
func (p *parked) start(spec wire.Exec) error {
	a := p.a
	dir := filepath.Join(filepath.Dir(a.cfg.Secrets), "warm")
	if err := a.own.As(identity.ID{UID: spec.UID, GID: spec.GID}, func() error { return warm.Write(dir) }); err != nil {
		return err
	}
	hold := wire.Exec{Argv: spec.Argv, Env: p.in.Environment(spec.Env, dir), Cwd: spec.Cwd, UID: spec.UID, GID: spec.GID, KillAll: true}
	if !p.in.Able {
		hold.Rlimits = spec.Rlimits
	}
	p.e = newExec(a, hold)
	p.e.parked = p
	a.mu.Lock()
	if a.closing {
		a.mu.Unlock()
		return fault.ErrDisconnected
	}
	a.launching[p.e] = struct{}{}
	a.lives.Add(1)
	a.mu.Unlock()
	if err := p.e.launchTracked(); err != nil {
		p.control.Close()
		a.lives.Done()
		return err
	}
	if p.forks {
		go p.e.watch()
	}
	err := p.settle(spec.Warm.Preload)
	if err == nil && p.forks {
		err = p.fork()
	}
	if err != nil {
		p.discard()
	}
	return err
}

// settle makes the interpreter import its modules. If it has several threads afterwards, it does not fork.
func (p *parked) settle(modules []string) error {
	how := "once"
	if p.forks {
		how = "fork"
	}
	if err := p.control.Send(strings.Join(append([]string{how}, modules...), "\x00")); err != nil {
		return err
	}
	settled := make(chan struct{})
	defer close(settled)
	go func() {
		select {
		case <-p.a.stop:
			p.control.Close()
		case <-settled:
		}
	}()
	threads, _, err := p.control.Receive(parkTime)
	if err == nil && p.forks && threads != "1" {
		err = errThreads
	}
	return err
}

// takeParked takes the waiting interpreter with a key, nil for none. If it was forked, its parent soon forks another.
func (a *Agent) takeParked(key string) *parked {
	p, ok := a.warm.Take(key)
	if !ok || !p.forks {
		return p
	}
	if p.idle != nil {
		p.idle.Reset(parkIdle)
	}
	return p.takeSpare()
}

// warmUp gives a command a waiting interpreter. If there is none, it returns false, and the command is unchanged.
func (a *Agent) warmUp(e *exec) bool {
	in, key := warm.Of(e.spec)
	if in == nil {
		return false
	}
	e.a.launches.RLock()
	defer e.a.launches.RUnlock()
	p := e.a.takeParked(key)
	if p == nil {
		return false
	}
	e.began = time.Now()
	from := p.forker
	l := &launcher{e: e, user: identity.ID{UID: e.spec.UID, GID: e.spec.GID}, cwd: e.a.cwd(e.spec.Cwd), tty: -1}
	err := p.become(l)
	l.closeChildEnds()
	if err != nil {
		l.closeOurEnds()
		e.inlet = nil
		p.discard()
		if from != nil && e.a.warm.Remove(from) { // its forks would not answer either
			from.discard()
		}
		return false
	}
	e.a.mu.Lock()
	defer e.a.mu.Unlock()
	delete(e.a.launching, e)
	close(e.executed)
	delete(e.a.alive, p.e)
	e.a.alive[e] = struct{}{}
	e.a.lives.Done() // the interpreter's; the command has its own
	if from != nil {
		go from.refill()
	}
	return true
}

// refill makes the interpreter fork the next process that waits.
func (p *parked) refill() {
	if p.fork() != nil && p.a.warm.Remove(p) {
		p.discard()
	}
}

// become makes the interpreter the command's first process.
func (p *parked) become(l *launcher) error {
	e, from := l.e, p.e
	if err := e.a.own.As(l.user, func() error { return errors.Join(p.check(l), l.openStdin()) }); err != nil {
		return err
	}
	if err := p.control.Send(warm.Message(l.limited(), l.cwd, p.in.Able), l.child...); err != nil {
		return err
	}
	l.closeChildEnds()
	if _, _, err := p.control.Receive(takeTime); err != nil {
		return err
	}
	if p.forker == nil {
		inherit(e, from)
	} else if !p.forker.pass(from, e) {
		return fault.ErrDisconnected
	}
	for _, o := range e.outlets {
		o.e = e
	}
	if p.idle != nil {
		p.idle.Stop()
	}
	// From here on the process is the command. If it does not receive "go", it exits as if killed.
	_ = p.control.Send("go")
	p.control.Close()
	return nil
}

// check fails if the command's interpreter would now be another file: a program has installed or removed one.
func (p *parked) check(l *launcher) error {
	path, err := process.LookPath(l.e.spec.Argv[0], l.e.spec.Env, l.cwd)
	if err != nil {
		return err
	}
	now, err := warm.Look(path)
	if err == nil && now != p.program {
		err = errOther
	}
	return err
}

// inherit makes the processes of another exec those of e.
func inherit(e, from *exec) {
	e.pid, e.keeper, e.program, e.settled, e.status, e.group, e.outlets = from.pid, from.keeper, from.program, from.settled, from.status, from.group, from.outlets
	e.forker = from.forker
}

// prepare opens the interpreter's end of its socket.
func (p *parked) prepare(l *launcher) error {
	ours, theirs, err := sock.New()
	if err != nil {
		return err
	}
	p.control = ours
	l.child = append(l.child, theirs)
	l.extra = [][2]int{{theirs, warm.Socket}}
	return nil
}

// discard ends a waiting interpreter.
func (p *parked) discard() {
	if p.idle != nil {
		p.idle.Stop()
	}
	p.control.Close()
	if !p.forks {
		p.e.end(ending{cause: wire.CauseEnded})
		p.e.run()
		return
	}
	_ = p.e.group.Kill()
	if s := p.takeSpare(); s != nil {
		s.discard()
	}
	go func() { // its keeper ends with the last process that the interpreter forked
		p.e.cleanUp()
		p.a.lives.Done()
	}()
}

// discardParked ends all waiting interpreters.
func (a *Agent) discardParked() {
	for _, p := range a.warm.Clear() {
		p.discard()
	}
}
