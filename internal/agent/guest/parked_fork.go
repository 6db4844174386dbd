//go:build linux

package guest

import (
	"fmt"
	"time"

	"github.com/belljar/belljar/internal/agent/guest/fault"
	"github.com/belljar/belljar/internal/agent/guest/identity"
	"github.com/belljar/belljar/internal/agent/guest/process"
	"github.com/belljar/belljar/internal/linux/forkexec"
)

// A forking interpreter is the child of a keeper, like every command. The processes that it forks become children of the same keeper,
// because their parent exits immediately. So the keeper reaps them and reports their status, which no other process can forge. A
// forked process moves to a cgroup of its own while it waits, because a move can take longer than a fork.

// fork makes the interpreter fork the process that waits for the next command.
func (p *parked) fork() error {
	p.filling.Lock()
	defer p.filling.Unlock()
	a := p.a
	e := newExec(a, p.e.spec)
	s := &parked{a: a, key: p.key, in: p.in, program: p.program, e: e, forker: p}
	e.parked, e.forker, e.settled = s, p, true
	l := &launcher{e: e, user: identity.ID{UID: e.spec.UID, GID: e.spec.GID}, tty: -1}
	err := p.forkInto(l)
	l.closeChildEnds()
	if err == nil {
		a.mu.Lock()
		if a.closing {
			err = fault.ErrDisconnected
		} else {
			a.lives.Add(1)
			a.alive[e] = struct{}{}
		}
		a.mu.Unlock()
	}
	if err != nil {
		s.control.Close() // ends the process
		l.closeOurEnds()
		return err
	}
	p.spare = s
	return nil
}

func (p *parked) forkInto(l *launcher) error {
	e := l.e
	err := e.parked.prepare(l)
	if err == nil {
		err = e.a.own.As(l.user, l.openPipes)
	}
	if err != nil {
		return err
	}
	if e.group, err = e.a.group.Take(); err != nil {
		return err
	}
	if err := p.control.Send("fork", l.extra[0][0], l.stdio[1], l.stdio[2]); err != nil {
		return err
	}
	l.closeChildEnds()
	_, pid, err := e.parked.control.Receive(takeTime)
	if err != nil {
		return err
	}
	if x, ok := process.ReadEntry(pid); !ok || x.Parent != p.e.keeper.Pid || pid == p.e.pid {
		return fmt.Errorf("process %d was not forked by the interpreter", pid)
	}
	e.pid, e.keeper = pid, p.e.keeper
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.children == nil {
		return fmt.Errorf("the keeper of process %d has ended", pid)
	}
	p.children[pid] = e
	return e.group.Add(pid)
}

// takeSpare returns the waiting process, nil for none.
func (p *parked) takeSpare() *parked {
	p.filling.Lock()
	defer p.filling.Unlock()
	s := p.spare
	p.spare = nil
	return s
}

// pass makes a child the first process of another command, unless it has ended.
func (p *parked) pass(from, to *exec) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.children[from.pid] != from {
		return false
	}
	inherit(to, from) // under the lock: the process may end at once, and its end is then reported to the command
	p.children[from.pid] = to
	return true
}

// reaped handles the end of a child of the keeper: the first process of a command, or an orphan of a command.
func (p *parked) reaped(rec forkexec.Record) {
	p.mu.Lock()
	e := p.children[int(rec.Pid)]
	delete(p.children, int(rec.Pid))
	p.mu.Unlock()
	if e != nil {
		e.first, e.last = &rec, &rec
		endForked(e)
	}
}

// orphaned handles the end of the keeper. The status of commands that it has not reported is lost.
func (p *parked) orphaned() {
	p.mu.Lock()
	left := p.children
	p.children = nil
	p.mu.Unlock()
	for _, e := range left {
		endForked(e)
	}
}

// endForked reports that the first process has ended. When the cgroup is empty, it reports that no process is left.
func endForked(e *exec) {
	e.ended = time.Now()
	close(e.exited)
	go func() {
		for pause := time.Millisecond; e.group.WaitEmpty(0) != nil; pause = min(2*pause, 50*time.Millisecond) {
			time.Sleep(pause)
		}
		close(e.empty)
		close(e.reaped)
	}()
}

// inGroup selects the processes of the command's cgroup.
func inGroup(e *exec, table map[int]process.Entry) (found []process.Entry) {
	for _, pid := range e.group.Pids() {
		if x, ok := table[pid]; ok {
			found = append(found, x)
		}
	}
	return found
}
