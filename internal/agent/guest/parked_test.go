//go:build linux

package guest

import (
	"testing"
	"time"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/linux/forkexec"
)

// A forked process that ends as soon as it has a command ends that command.
func TestForkedProcessEndsAtOnce(t *testing.T) {
	group := emptyGroup(t)
	const pid = 4242
	from, to := newExec(nil, wire.Exec{}), newExec(nil, wire.Exec{})
	p := &parked{children: map[int]*exec{pid: from}}
	from.pid, from.group, from.forker = pid, group, p
	if !p.pass(from, to) {
		t.Fatal("the process has ended")
	}
	p.reaped(forkexec.Record{Pid: pid, Status: 9})
	select {
	case <-to.reaped:
	case <-time.After(time.Minute):
		t.Fatal("the command does not end")
	}
	if to.pid != pid || to.first == nil || to.forker != p || isClosed(from.exited) {
		t.Errorf("pid %d, status %v", to.pid, to.first)
	}
	late := newExec(nil, wire.Exec{})
	if p.pass(from, late) || late.pid != 0 {
		t.Error("a process that has ended has a command")
	}
}
