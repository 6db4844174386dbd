package cli_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	hosted "github.com/belljar/belljar/internal/cli/program"
	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/program"
)

func TestMain(m *testing.M) { program.Main(m) }

func TestScripts(t *testing.T) { runScripts(t, "testdata/script") }

// runScripts runs the scripts of a folder.
func runScripts(t *testing.T, dir string) {
	agent := program.Agent(t)
	works, why := program.Native(t)
	if !works {
		t.Logf("the native runtime does not work here, scripts that run something are skipped:\n%s", why)
	}
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			env.Setenv(program.AgentVariable, agent)
			env.Setenv("XDG_RUNTIME_DIR", os.Getenv("XDG_RUNTIME_DIR"))
			env.Vars = append(env.Vars, build.Patient()...)
			return nil
		},
		Condition: func(condition string) (bool, error) {
			if name, ok := strings.CutPrefix(condition, "inside:"); ok {
				return hosted.Find(name) != "", nil
			}
			if protection, ok := strings.CutPrefix(condition, "enforced:"); ok {
				return program.Enforces(t, protection), nil
			}
			if condition == "busybox" {
				_, err := exec.LookPath("busybox")
				return err == nil, nil
			}
			if condition == "root" {
				return os.Geteuid() == 0, nil
			}
			return condition == "native" && works, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status, "serve": serveScript, "keep": keep, "until": until, "registry": registryScript(t), "peer": peerScript(t), "repository": repositoryScript(t)},
	})
}

// status is the script command status N PROGRAM ARGS…: it runs the program and expects exit status N.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N PROGRAM ARGS")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("%s: status %d, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}
