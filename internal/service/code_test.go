//go:build linux

package service_test

import (
	"os/exec"
	"testing"

	"github.com/belljar/belljar"
)

func code(language, text string) belljar.RunRequest {
	return with(command(), func(s *belljar.RunSpec) { s.Code, s.Language = text, language })
}

func TestCode(t *testing.T) {
	b := newBench(t)
	r := b.run(code("bash", "echo code; ls; cat; exit 6"))
	r.want(t, belljar.PhaseFailed, 6, belljar.ReasonNonZeroExit)
	if r.stdout != "code\nmain.sh\n" || len(r.Command) == 0 {
		t.Errorf("printed %q, command %q", r.stdout, r.Command)
	}
	if _, err := exec.LookPath("python3"); err == nil {
		req := code("python", "import sys\nprint(sys.stdin.read() * 2, end='')")
		req.RunSpec.Stdin = "in"
		if r := b.run(req); r.stdout != "inin" {
			t.Errorf("python printed %q, %q: %s", r.stdout, r.stderr, r.Message)
		}
	}
	if _, err := exec.LookPath("cc"); err == nil {
		req := code("c", "#include <stdio.h>\nint main(void) { puts(\"compiled\"); return 3; }")
		req.WorkspaceExec, req.Env = true, map[string]string{"TMPDIR": "."} // here /workspace is another folder
		if r := b.run(req); r.stdout != "compiled\n" || r.ExitCode == nil || *r.ExitCode != 3 {
			t.Errorf("c printed %q, %q: %s", r.stdout, r.stderr, r.Message)
		}
	}
}

func TestStdinOfTheRequest(t *testing.T) {
	b := newBench(t)
	req := shell("cat; echo end")
	req.RunSpec.Stdin = "text\n"
	r := b.run(req)
	r.want(t, belljar.PhaseCompleted, 0, "")
	if r.stdout != "text\nend\n" {
		t.Errorf("printed %q", r.stdout)
	}
}
