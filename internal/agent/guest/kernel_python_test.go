//go:build linux

package guest_test

import (
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/agent/guest"
	"github.com/belljar/belljar/internal/agent/wire"
)

// A cell that awaits has the loop from its beginning, so that it can make tasks before it awaits them.
func TestPythonTasks(t *testing.T) {
	n := begin(t, guest.Config{}).notebook(wire.KernelPython)
	n.wants("import asyncio\nasync def five(): return 5\ntask = asyncio.create_task(five())\nawait task", "5")
	n.wants("tasks = [asyncio.ensure_future(five()) for _ in range(2)]; await asyncio.gather(*tasks)", "[5, 5]")
	n.wants("task = asyncio.create_task(five()); await task;", "")
	n.wants("await task\ntask.done()", "True")
	n.wants("asyncio.run(five())", "5") // a cell that does not await has no loop
	e := n.fails("task = asyncio.create_task(five())\nx = 1/0\nawait task", "ZeroDivisionError")
	if len(e.Frames) != 1 || e.Frames[0].Line != 2 || strings.Contains(e.Traceback, "asyncio") {
		t.Errorf("%+v", e)
	}
	if c := n.run("import sys\nsys.exit(3)\nawait task"); c.exit.Code != 3 || c.exit.Shell.Replaced {
		t.Errorf("%+v", c)
	}
}
