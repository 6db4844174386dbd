//go:build linux

package guest

import (
	"github.com/belljar/belljar/internal/agent/guest/process"
	"os"
)

// processes returns the living processes of the command: below its keeper, or in its cgroup. The caller closes them.
func (e *exec) processes() []*process.Process {
	if isClosed(e.empty) {
		e.a.launches.Lock() // a keeper that is being started would look like a stray
		defer e.a.launches.Unlock()
	}
	table := process.ReadTable()
	var found []*process.Process
	for _, x := range e.members(table) {
		if x.Zombie {
			continue
		}
		if p := process.Open(x); p != nil {
			found = append(found, p)
		}
	}
	return found
}

// members selects the command's processes from the table.
func (e *exec) members(table map[int]process.Entry) []process.Entry {
	children := process.ByParent(table)
	switch {
	case e.forker != nil:
		return inGroup(e, table)
	case !isClosed(e.empty):
		return process.Descendants(children, e.keeper.Pid, nil)
	case e.last != nil:
		return nil // the keeper has seen the last one end
	}
	return e.a.strays(e, table, children)
}

// strays returns processes whose keeper was killed. If the agent adopts orphans, they have become its children; otherwise the
// first process's session is the only way to identify them.
func (a *Agent) strays(e *exec, table map[int]process.Entry, children map[int][]process.Entry) []process.Entry {
	if a.reaper != nil {
		return process.Descendants(children, os.Getpid(), a.keepers())
	}
	var found []process.Entry
	for _, x := range table {
		if x.Session == e.pid {
			found = append(found, x)
		}
	}
	return found
}

// keepers returns the pids of all keepers, whose children are not strays.
func (a *Agent) keepers() map[int]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	pids := make(map[int]bool)
	for e := range a.alive {
		pids[e.keeper.Pid] = true
	}
	return pids
}
