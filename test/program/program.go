// Package program makes a test program serve as the belljar that its tests start: with the commands and the daemon, as in
// cmd/belljar, and an agent of the source tree.
package program

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/belljar/belljar/internal/cli"
	"github.com/belljar/belljar/internal/daemon"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/test/build"
)

// AgentVariable names a test belljar's agent. Only test programs read it.
const AgentVariable = "BELLJAR_TEST_AGENT"

// Main is for TestMain: it runs the tests, or the belljar that one of them starts by this name.
func Main(m *testing.M) {
	if filepath.Base(os.Args[0]) != "belljar" {
		if err := build.Alone(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	testscript.Main(cleaned{m}, map[string]func(){"belljar": func() {
		environment := local.Environment{Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
		machine := daemon.New(daemon.Options{Environment: environment, Version: "dev", Agent: agent})
		os.Exit(cli.Run(context.Background(), os.Args[1:], cli.Options{Environment: environment, Version: "dev", Machine: machine}))
	}})
}

// agent opens the agent, which is built for this machine's processor only.
func agent(arch string) (fs.File, error) {
	if arch != runtime.GOARCH {
		return nil, fmt.Errorf("tests have no agent for %s", arch)
	}
	return os.Open(os.Getenv(AgentVariable))
}

// cleaned runs all tests, and then removes the programs that were built for them.
type cleaned struct{ *testing.M }

// Run implements testscript.TestingM.
func (c cleaned) Run() int {
	defer os.RemoveAll(folder())
	return c.M.Run()
}

// folder returns the folder for built programs.
func folder() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("belljar-program-%d", os.Getpid()))
}

// built makes the agent once. Every belljar that the tests start uses it.
var built = sync.OnceValues(func() (string, error) {
	if err := os.MkdirAll(folder(), 0o755); err != nil {
		return "", err
	}
	path, err := build.Agent(folder())
	if err != nil {
		return "", err
	}
	return path, os.Setenv(AgentVariable, path)
})

// Agent returns the agent that every belljar of this test program uses.
func Agent(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// examined is doctor's report on the native runtime here.
type examined struct {
	works    bool
	stderr   string
	enforced map[string]bool
}

var doctor = sync.OnceValue(func() examined {
	var out, stderr bytes.Buffer
	cmd := exec.Command("belljar", "doctor", "--json")
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	var found struct{ Runtimes []local.Runtime }
	result := examined{stderr: out.String() + stderr.String(), enforced: map[string]bool{}}
	if json.Unmarshal(out.Bytes(), &found) == nil && len(found.Runtimes) > 0 {
		result.works = err == nil && found.Runtimes[0].Available
		for _, p := range found.Runtimes[0].Protections {
			result.enforced[p.Name] = p.Enforced
		}
	}
	return result
})

// Native reports whether the native runtime works here, and if not, why. For root on Linux it must work: tests that are
// skipped silently hide failures.
func Native(t testing.TB) (works bool, why string) {
	t.Helper()
	Agent(t)
	found := doctor()
	if !found.works && runtime.GOOS == "linux" && os.Geteuid() == 0 {
		t.Fatalf("the native runtime does not work here:\n%s", found.stderr)
	}
	return found.works, found.stderr
}

// NeedNative skips a test if the native runtime does not work.
func NeedNative(t testing.TB) {
	t.Helper()
	if works, why := Native(t); !works {
		t.Skipf("the native runtime does not work here:\n%s", why)
	}
}

// Enforces reports whether this host enforces a protection, according to doctor.
func Enforces(t testing.TB, protection string) bool {
	works, _ := Native(t)
	return works && doctor().enforced[protection]
}

// Alive reports whether any process on this machine has that word among its arguments.
func Alive(t testing.TB, word string) bool {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		argv, err := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		if err == nil && bytes.Contains(argv, []byte(word)) {
			return true
		}
	}
	return false
}
