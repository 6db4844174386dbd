//go:build linux

package security

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestHostIDs inspects two living sandboxes from outside. Attack: a process that leaves its namespaces, or finds a file
// or a process of a neighbour. Why it matters: it then has the rights of its id on the host. What must hold: that id
// belongs to this sandbox alone, and to no user of the host.
func TestHostIDs(t *testing.T) {
	for _, l := range lanes() {
		if l.ready {
			continue // as without a server
		}
		t.Run(l.name, func(t *testing.T) {
			l.open(t)
			if l.way == "shared" {
				t.Skipf("lane %s has one id only, the user's own; doctor says so", l.name)
			}
			known := l.pids(t, nil)
			one, endOne := l.trial(t).held("true")
			defer endOne()
			ofOne := without(l.pids(t, one), known)
			two, endTwo := l.trial(t).held("true")
			defer endTwo()
			a, b := hostIDs(t, ofOne), hostIDs(t, without(l.pids(t, two), append(known, ofOne...)))
			t.Logf("host ids %v and %v", a, b)
			for id := range a {
				if b[id] {
					t.Errorf("both sandboxes use id %d", id)
				}
			}
			for _, ids := range []map[int]bool{a, b} {
				if len(ids) == 0 || len(ids) < 2 && l.caps.AgentUID == "separate" {
					t.Errorf("agent and program share their id: %v", ids)
				}
				for id := range ids {
					if id < 65536 {
						t.Errorf("id %d is one that the host gives to people", id)
					}
					if l.way == "root" && delegated(t, id) {
						t.Errorf("id %d is in /etc/subuid", id)
					}
				}
			}
		})
	}
}

// pids returns the processes below p and, if an engine makes the sandboxes, below the engine's containers.
func (l *lane) pids(t *testing.T, p *process) []int {
	t.Helper()
	var all []int
	if p != nil {
		all = descendants(p.cmd.Process.Pid)
	}
	if l.engine != nil {
		for _, c := range l.engine.containers(t) {
			if pid := l.engine.pid(t, c.ID); pid != 0 {
				all = append(append(all, pid), descendants(pid)...)
			}
		}
	}
	return all
}

func without(all, some []int) []int {
	return slices.DeleteFunc(all, func(pid int) bool { return slices.Contains(some, pid) })
}

// hostIDs returns the user ids, on the host, of those processes that are in another pid namespace.
func hostIDs(t *testing.T, pids []int) map[int]bool {
	t.Helper()
	ours, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, child := range pids {
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", child))
		if err != nil || ns == ours {
			continue
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", child))
		if err != nil {
			continue
		}
		for _, line := range strings.Split(string(status), "\n") {
			if fields := strings.Fields(line); len(fields) > 1 && (fields[0] == "Uid:" || fields[0] == "Gid:") {
				for _, field := range fields[1:] {
					id, err := strconv.Atoi(field)
					if err != nil {
						t.Fatal(err)
					}
					ids[id] = true
				}
			}
		}
	}
	return ids
}

// delegated reports whether the host has delegated id to a user.
func delegated(t *testing.T, id int) bool {
	t.Helper()
	raw, err := os.ReadFile("/etc/subuid")
	if err != nil {
		return false
	}
	for _, line := range strings.Split(string(raw), "\n") {
		fields := strings.Split(line, ":")
		if len(fields) != 3 {
			continue
		}
		first, _ := strconv.Atoi(fields[1])
		count, _ := strconv.Atoi(fields[2])
		if id >= first && id < first+count {
			return true
		}
	}
	return false
}
