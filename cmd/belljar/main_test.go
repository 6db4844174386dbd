package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/belljar/belljar/test/build"
)

// agentVariable tells the belljar of a test where its agent is. Only this test program knows it.
const agentVariable = "BELLJAR_TEST_AGENT"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "belljar" {
		if err := build.Alone(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	testscript.Main(m, map[string]func(){"belljar": func() {
		c := &console{env: os.Environ(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, agent: testAgent}
		os.Exit(c.run(context.Background(), os.Args[1:]))
	}})
}

func testAgent() (fs.File, error) { return os.Open(os.Getenv(agentVariable)) }

// buildAgent builds the agent, so that the tests do not depend on make build, and makes every belljar that this test
// starts use it.
func buildAgent(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "belljar-agent")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", name, "../belljar-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the agent: %v\n%s", err, out)
	}
	t.Setenv(agentVariable, name)
	return name
}

// nativeWorks reports whether the native runtime works here, and if not, why. For root on Linux it has to: tests that silently go
// away hide failures.
func nativeWorks(t *testing.T) (works bool, why string) {
	t.Helper()
	var out bytes.Buffer
	doctor := exec.Command("belljar", "doctor")
	doctor.Stdout, doctor.Stderr = &out, &out
	if doctor.Run() == nil {
		return true, ""
	}
	if runtime.GOOS == "linux" && os.Geteuid() == 0 {
		t.Fatalf("the native runtime does not work here:\n%s", out.String())
	}
	return false, out.String()
}

// needNative skips a test where the native runtime does not work.
func needNative(t *testing.T) {
	t.Helper()
	buildAgent(t)
	if works, why := nativeWorks(t); !works {
		t.Skipf("the native runtime does not work here:\n%s", why)
	}
}

func TestScripts(t *testing.T) { runScripts(t, "testdata/script") }

// runScripts runs the scripts of a folder.
func runScripts(t *testing.T, dir string) {
	agent := buildAgent(t)
	works, why := nativeWorks(t)
	if !works {
		t.Logf("the native runtime does not work here, scripts that run something are skipped:\n%s", why)
	}
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			env.Setenv(agentVariable, agent)
			env.Setenv("XDG_RUNTIME_DIR", os.Getenv("XDG_RUNTIME_DIR"))
			env.Vars = append(env.Vars, build.Patient()...)
			return nil
		},
		Condition: func(condition string) (bool, error) {
			if program, ok := strings.CutPrefix(condition, "inside:"); ok {
				return newHostImage().find(program) != "", nil // a program of the image
			}
			if protection, ok := strings.CutPrefix(condition, "enforced:"); ok {
				return works && enforces(t, protection), nil
			}
			if condition == "busybox" {
				_, err := exec.LookPath("busybox")
				return err == nil, nil
			}
			return condition == "native" && works, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status, "serve": serveScript, "keep": keep, "until": until, "registry": registryScript(t)},
	})
}

// status is a command of the scripts, status N PROGRAM ARGS…: it runs the program and demands that exit status.
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

// enforces reports whether this host enforces a protection, as doctor has it.
func enforces(t *testing.T, protection string) bool {
	t.Helper()
	out, err := exec.Command("belljar", "doctor", "--json").Output()
	if err != nil {
		t.Fatalf("doctor: %v", err)
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("doctor: %v", err)
	}
	return r.Runtimes[0].Protection(protection).Enforced
}
