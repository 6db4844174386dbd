package daemon_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/program"
)

// Where /proc has only processes, the hint is about that, and not about a process that was killed.
func TestProcWithoutSettings(t *testing.T) {
	program.NeedNative(t)
	need.Root(t)
	cmd := exec.CommandContext(t.Context(), need.Program(t, "unshare"), "--mount", "sh", "-c", "mount -t proc -o subset=pid proc /proc && exec belljar run --runtime native -- true")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "sysctl: no such file") || !strings.Contains(string(out), "subset=pid") {
		t.Errorf("%v: %s", err, out)
	}
}
