//go:build linux && !race

package pool_test

import (
	"testing"

	"github.com/belljar/belljar/internal/runtime/pool"
)

// An interpreter that fails while it is being parked ends. A script in its place does not start, because it could start another
// interpreter without our file. None of them executes the program, which no caller has started.
func TestPlainParkedFails(t *testing.T) {
	box, info := newSessionBox(t)
	box.write("main.py", "open('executed', 'a').write('x')")
	box.write("fork/sitecustomize.py", "import os\ndef fail(): raise BlockingIOError(11, 'no process is left')\nos.fork = fail") // the image's own file
	box.write("site/sitecustomize.py", "1 / 0")
	box.write("bin/python3", "#!/bin/sh\nexec /usr/bin/python3 -I \"$@\"")
	if got := box.exec(program("chmod", "+x", "bin/python3"), ""); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	for name, env := range map[string][]string{
		"fork": append([]string{"PYTHONPATH=/workspace/fork"}, sandboxEnv...), "site": append([]string{"PYTHONPATH=/workspace/site"}, sandboxEnv...),
		"script": {"PATH=/workspace/bin:/usr/bin"}, "none": sandboxEnv,
	} {
		e := program("python3", "main.py")
		e.Env = env
		if err := pool.Park(t.Context(), box.box, warmed(e)); (err == nil) != (name == "none" || name == "fork" && !info.Cgroup) {
			t.Errorf("%s: %v", name, err)
		}
		if got := box.exec(program("rm", "executed"), ""); got.code == 0 {
			t.Errorf("%s: the interpreter executed the program", name)
		}
		if name != "site" {
			if got := box.exec(e, ""); got.code != 0 || box.exec(program("rm", "executed"), "").code != 0 {
				t.Errorf("%s: the program: %+v", name, got)
			}
		}
	}
}
