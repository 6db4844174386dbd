//go:build linux

package guest

import "github.com/belljar/belljar/internal/agent/guest/process"

// running returns the number of processes of commands. It does not count the shell without a name while that is idle, nor parked
// interpreters, which only save time.
func (a *Agent) running() int {
	a.launches.Lock() // a keeper that is being started would look like a stray
	defer a.launches.Unlock()
	a.mu.Lock()
	var alive []*exec
	for e := range a.alive {
		if e.parked == nil {
			alive = append(alive, e)
		}
	}
	idle := 0
	if sh := a.shells[""]; sh != nil && sh.living != nil && isClosed(sh.last) {
		idle = sh.living.exec.pid
	}
	a.mu.Unlock()
	table := process.ReadTable()
	found := map[int]bool{}
	for _, e := range alive {
		for _, x := range e.members(table) {
			if !x.Zombie && x.Pid != idle {
				found[x.Pid] = true
			}
		}
	}
	return len(found)
}
