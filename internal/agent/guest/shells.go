//go:build linux

package guest

import (
	"slices"
	"sort"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
)

// busy records a command. The agent is locked.
func (sh *shell) busy(counts bool) {
	if counts {
		sh.runs++
	}
	if sh.idle != nil {
		sh.idle.Stop()
		sh.idle = nil
	}
}

// live records the shell's process.
func (sh *shell) live(p *shellProcess) {
	sh.a.mu.Lock()
	defer sh.a.mu.Unlock()
	sh.living = p
	sh.processes = slices.DeleteFunc(sh.processes, func(p *shellProcess) bool { return isClosed(p.exec.over) })
	sh.processes = append(sh.processes, p)
	if sh.ended { // ended while the process started
		p.exec.end(ending{cause: wire.CauseEnded})
	}
}

// over reports whether the shell has been ended.
func (sh *shell) over() bool {
	sh.a.mu.Lock()
	defer sh.a.mu.Unlock()
	return sh.ended
}

// rest records the end of a command. The process ends when the shell stays idle; 0 is never.
func (sh *shell) rest(idle time.Duration) {
	sh.a.mu.Lock()
	defer sh.a.mu.Unlock()
	sh.used = time.Now()
	sh.arm(idle)
}

// arm starts the timer of an idle shell. The agent is locked.
func (sh *shell) arm(idle time.Duration) {
	if idle > 0 && isClosed(sh.last) && !sh.ended && !sh.a.closing {
		if sh.idle != nil { // of a later command, which has ended already
			sh.idle.Stop()
		}
		sh.idle = time.AfterFunc(idle, func() { sh.retire(idle) })
	}
}

// retire ends the process of an idle shell. While processes that its commands left still run, it only restarts the timer.
func (sh *shell) retire(idle time.Duration) {
	sh.a.mu.Lock()
	p := sh.living
	sh.a.mu.Unlock()
	works := p != nil && p.works()
	sh.a.mu.Lock()
	defer sh.a.mu.Unlock()
	switch {
	case p == nil || p != sh.living || !isClosed(sh.last):
	case works:
		sh.arm(idle)
	default:
		sh.retired = p
		p.exec.end(ending{cause: wire.CauseEnded})
	}
}

// leaves reports whether a process of the shell is ending because it was idle.
func (sh *shell) leaves(p *shellProcess) bool {
	sh.a.mu.Lock()
	defer sh.a.mu.Unlock()
	return p != nil && sh.retired == p
}

// listShells lists the shells that have a name.
func (a *Agent) listShells() []wire.ShellInfo {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []wire.ShellInfo
	for name, sh := range a.shells {
		if name == "" {
			continue
		}
		info := wire.ShellInfo{
			Name: name, Kernel: sh.spec.Shell.Kernel, Cwd: sh.spec.Cwd, Runs: sh.runs, AgeMS: time.Since(sh.born).Milliseconds(),
			Alive: sh.living != nil && !isClosed(sh.living.exec.exited), Busy: !isClosed(sh.last),
		}
		if !info.Busy && !sh.used.IsZero() {
			info.IdleMS = time.Since(sh.used).Milliseconds()
		}
		list = append(list, info)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// endShell ends a shell, its commands and everything that they started. It returns when all of it is gone.
func (a *Agent) endShell(name string) {
	a.mu.Lock()
	sh := a.shells[name]
	if sh == nil {
		a.mu.Unlock()
		return
	}
	delete(a.shells, name)
	sh.ended = true
	if sh.idle != nil {
		sh.idle.Stop()
	}
	var commands []*exec
	for _, e := range a.execs {
		if e.command != nil && e.command.shell == sh {
			commands = append(commands, e)
		}
	}
	processes := sh.processes
	a.mu.Unlock()
	for _, e := range commands {
		e.mu.Lock()
		running := e.exit == nil
		e.mu.Unlock()
		if running {
			e.end(ending{cause: wire.CauseEnded})
		}
	}
	for _, p := range processes {
		p.exec.end(ending{cause: wire.CauseEnded})
	}
	for _, p := range processes {
		select {
		case <-p.exec.over:
		case <-a.stop:
		}
	}
}
