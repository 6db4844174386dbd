//go:build linux && !race

package pool_test

import (
	"testing"

	"github.com/belljar/belljar/internal/runtime/pool"
)

// An interpreter that fails while it comes to wait ends. It does not execute the program, which no caller has started.
func TestPlainParkedFails(t *testing.T) {
	spec := nativeSpec()
	spec.Limits.Pids = 200
	box := newWarmBox(t, openNative(t, t.TempDir()), spec)
	info, err := box.agent.Ping(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	box.write("main.py", "open('executed', 'a').write('x')")
	for name, site := range map[string]string{ // the image's own file
		"fork": "import os\ndef fail(): raise BlockingIOError(11, 'no process is left')\nos.fork = fail", "site": "1 / 0",
	} {
		box.write(name+"/sitecustomize.py", site)
		e := warmed(program("python3", "main.py"))
		e.Env = append([]string{"PYTHONPATH=/workspace/" + name}, e.Env...)
		if err := pool.Park(t.Context(), box.box, e); err == nil && (info.Cgroup || name != "fork") {
			t.Errorf("%s: the interpreter waits", name)
		}
		if got := box.exec(program("rm", "executed"), ""); got.code == 0 {
			t.Errorf("%s: the interpreter executed the program", name)
		}
	}
}
