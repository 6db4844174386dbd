//go:build linux

package guest

import (
	"github.com/belljar/belljar/internal/agent/guest/process"
	"os"
)

// processes returns the living processes of the command: below its keeper, or in its cgroup. The caller closes them.
func (e *exec) processes() []*process.Process {
	if isClosed(e.empty) {
		e.a.births.Lock() // a keeper in the making would look like a stray
		defer e.a.births.Unlock()
	}
	table := process.ReadTable()
	var found []*process.Process
	for _, x := range e.members(table) {
		if x.Zombie {
			continue
		}
		if p := process.Hold(x); p != nil {
			found = append(found, p)
		}
	}
	return found
}

// members picks the command's processes from the table.
func (e *exec) members(table map[int]process.Entry) []process.Entry {
	children := make(map[int][]process.Entry, len(table))
	for _, x := range table {
		children[x.Parent] = append(children[x.Parent], x)
	}
	switch {
	case !isClosed(e.empty):
		return process.Below(children, e.keeper.Pid, nil)
	case e.last != nil:
		return nil // the keeper saw the last one go
	}
	return e.a.strays(e, table, children)
}

// strays are processes whose keeper was killed. They have become children of the agent where it is their foster
// parent; elsewhere the first process's session is all there is to know them by.
func (a *Agent) strays(e *exec, table map[int]process.Entry, children map[int][]process.Entry) []process.Entry {
	if a.reaper != nil {
		return process.Below(children, os.Getpid(), a.keepers())
	}
	var found []process.Entry
	for _, x := range table {
		if x.Session == e.pid {
			found = append(found, x)
		}
	}
	return found
}

// keepers returns the numbers of all keepers: what they keep is not astray.
func (a *Agent) keepers() map[int]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	pids := make(map[int]bool)
	for e := range a.alive {
		pids[e.keeper.Pid] = true
	}
	return pids
}
