//go:build linux

package guest

import (
	"fmt"
	"time"

	"github.com/belljar/belljar/internal/agent/guest/process"
	"github.com/belljar/belljar/internal/linux/forkexec"
)

// An interpreter that forks is the child of a keeper as every command is. A process that it forks for a command becomes a child of the
// same keeper, because its parent exits at once. So the keeper reaps it and reports its status, which no other process can forge. All
// processes of the command are in a cgroup of their own.

// fork has the interpreter fork the command's first process.
func (p *parked) fork(l *launcher) error {
	e := l.e
	err := e.a.own.As(l.user, l.openPipes)
	if err != nil {
		return err
	}
	if e.group, err = e.a.group.Take(); err != nil {
		return err
	}
	control, theirs, err := newControl()
	if err != nil {
		return err
	}
	defer control.Close()
	l.child = append(l.child, theirs)
	fds := []int{theirs, l.stdio[0], l.stdio[1], l.stdio[2]}
	if !e.spec.Stdin {
		fds = []int{theirs, l.stdio[1], l.stdio[2]} // it has /dev/null
	}
	if err := p.control.send(job(e.spec, e.a.cwd(e.spec.Cwd), true), fds...); err != nil {
		return err
	}
	l.closeChildEnds()
	switch said, _, err := p.control.receive(jobTime); {
	case err != nil:
		return err
	case said != "forked":
		return fmt.Errorf("the interpreter is %s", said)
	}
	_, pid, err := control.receive(jobTime)
	if err != nil {
		return err
	}
	if x, ok := process.ReadEntry(pid); !ok || x.Parent != p.e.keeper.Pid || pid == p.e.pid {
		return fmt.Errorf("process %d was not forked by the interpreter", pid)
	}
	if err := e.group.Add(pid); err != nil {
		return err
	}
	p.mu.Lock()
	p.children[pid] = e
	p.mu.Unlock()
	e.pid, e.keeper, e.settled, e.forker = pid, p.e.keeper, true, p
	if err := control.send("go"); err != nil {
		p.mu.Lock()
		delete(p.children, pid)
		p.mu.Unlock()
		e.forker = nil
		return err
	}
	return nil
}

// reaped handles the end of a child of the keeper: the first process of a command, or a process that one has left.
func (p *parked) reaped(rec forkexec.Record) {
	p.mu.Lock()
	e := p.children[int(rec.Pid)]
	delete(p.children, int(rec.Pid))
	p.mu.Unlock()
	if e != nil {
		e.first, e.last = &rec, &rec
		e.endForked()
	}
}

// orphaned handles the end of the keeper. Commands that it has not reported are lost.
func (p *parked) orphaned() {
	p.mu.Lock()
	left := p.children
	p.children = nil
	p.mu.Unlock()
	for _, e := range left {
		e.endForked()
	}
}

// endForked reports that the first process has ended, and that no process is left when the cgroup is empty.
func (e *exec) endForked() {
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
func (e *exec) inGroup(table map[int]process.Entry) (found []process.Entry) {
	for _, pid := range e.group.Pids() {
		if x, ok := table[pid]; ok {
			found = append(found, x)
		}
	}
	return found
}
