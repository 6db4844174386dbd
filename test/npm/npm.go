//go:build linux

// Package npm tests belljar with a client that runs on Node: check.mjs in the folder of a test, with the packages of its package.json.
package npm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/need"
)

// Patience limits every wait, on a busy machine.
const Patience = 10 * time.Minute

// Programs are the programs that a package's tests start.
type Programs struct {
	Belljar, Node string
	missing       string // a program that is missing; "" for none
}

var (
	module   string // of the client, which npm installs
	dir      string // of programs, removed after the tests
	prepared = sync.OnceValues(prepare)
)

// Main is for TestMain. clientModule is a package that check.mjs imports.
func Main(m *testing.M, clientModule string) {
	module = clientModule
	if err := build.Alone(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func prepare() (Programs, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return Programs{missing: "node"}, nil
	}
	if _, err := os.Stat(filepath.Join("node_modules", module)); err != nil {
		npm, err := exec.LookPath("npm")
		if err != nil {
			return Programs{missing: "npm"}, nil
		}
		if out, err := exec.Command(npm, "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts").CombinedOutput(); err != nil {
			return Programs{}, fmt.Errorf("npm ci: %w\n%s", err, out)
		}
	}
	if dir, err = os.MkdirTemp("", "belljar-npm-"); err != nil {
		return Programs{}, err
	}
	built, err := build.Into(dir)
	return Programs{Belljar: built.Belljar, Node: node}, err
}

// Ready returns the programs. It builds and installs them once.
func Ready(t testing.TB) Programs {
	t.Helper()
	p, err := prepared()
	if err != nil {
		t.Fatal(err)
	}
	if p.missing != "" {
		need.Missing(t, "%s", p.missing)
	}
	return p
}

// Check runs check.mjs, makes each of its checks a subtest, and returns the message of the last one.
func (p Programs) Check(t *testing.T, env []string, args ...string) (output string) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), Patience)
	defer stop()
	cmd := exec.CommandContext(ctx, p.Node, append([]string{"check.mjs"}, args...)...)
	cmd.Env = append(append(os.Environ(), "SANDBOX_IMAGE_PULL=never"), env...)
	cmd.WaitDelay = time.Minute
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	checks := 0
	for line := range bytes.Lines(out) {
		var c struct {
			Name, Why, Output string
			OK                bool
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		checks++
		t.Run(c.Name, func(t *testing.T) {
			if !c.OK {
				t.Error(c.Why)
			}
		})
		output = c.Output
	}
	if err != nil || checks == 0 {
		t.Errorf("%d checks, %v\n%s", checks, err, &problems)
	}
	return output
}
