//go:build linux

package forkexec

import "sync"

// maxIdle is the number of idle arenas that a pool keeps, each below 200 KiB: about the number of programs built at
// once.
const maxIdle = 16

// Pool reuses the memory of freed programs, which saves some dozen page faults for each program. The zero value is
// ready. Safe for concurrent use.
type Pool struct {
	mu   sync.Mutex
	idle []*arena
}

// New returns an empty program. Its [Program.Free] returns the memory to the pool. It panics when the kernel has no
// memory.
func (l *Pool) New() *Program {
	p := newProgram(l.get())
	p.pool = l
	return p
}

// Drain returns all idle memory to the kernel.
func (l *Pool) Drain() {
	l.mu.Lock()
	idle := l.idle
	l.idle = nil
	l.mu.Unlock()
	for _, a := range idle {
		a.shrink(mark{})
	}
}

func (l *Pool) get() *arena {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.idle)
	if n == 0 {
		return newArena()
	}
	a := l.idle[n-1]
	l.idle[n-1] = nil
	l.idle = l.idle[:n-1]
	return a
}

// put returns memory to the pool, and reports whether there was room for it.
func (l *Pool) put(a *arena) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.idle) == maxIdle {
		return false
	}
	a.shrink(a.empty)
	l.idle = append(l.idle, a)
	return true
}
