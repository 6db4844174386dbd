// Package build makes the programs that black-box tests run, from the source tree that it is in.
package build

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// programsVariable names a folder that already has all programs. make test builds them once for every package.
const programsVariable = "BELLJAR_TEST_PROGRAMS"

// Programs are the paths of the built programs.
type Programs struct {
	Agent   string
	Belljar string // with the agent embedded
	Forged  string // belljar whose agent obeys programs, for test/security
	Probe   string // the attacker's tool of test/security
	Soak    string // the many runs of test/e2e
	Net     string // a program that uses the network
}

// Prepared reports whether make test has built the programs of the tests, including the TypeScript SDK in its folder.
func Prepared() bool { return os.Getenv(programsVariable) != "" }

// Into returns the programs: those of BELLJAR_TEST_PROGRAMS, or else built into dir.
func Into(dir string) (Programs, error) {
	p := programs(dir)
	if made := os.Getenv(programsVariable); made != "" {
		p = programs(made)
		return p, p.check()
	}
	source, err := Root()
	if err != nil {
		return p, err
	}
	forger := filepath.Join(dir, "forger")
	if err := errors.Join(compile(source, p.Agent, "./cmd/belljar-agent"), compile(source, forger, "./test/security/forger")); err != nil {
		return p, err
	}
	return p, errors.Join(
		around(source, p.Agent, p.Belljar), around(source, forger, p.Forged),
		compile(source, p.Probe, "./test/security/probe"),
		compile(source, p.Soak, "./test/e2e/soak"),
		compile(source, p.Net, "./test/net"), compileMusl(source, p.Net))
}

// Main makes the programs, with [Into] and a folder of their own, and runs tests with them. It returns the exit status of the test program.
func Main(run func(dir string, p Programs) int) int {
	dir, err := os.MkdirTemp("", "belljar-test-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = errors.Join(os.Chmod(dir, 0o755), Alone()) // other users run what is in it
	}
	var p Programs
	if err == nil {
		p, err = Into(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run(dir, p)
}

// around builds a belljar with an agent embedded. An overlay puts the agent into its place and leaves the source tree alone.
func around(source, agent, out string) error {
	place := filepath.Join(source, "cmd/belljar/agent/belljar-agent-linux-"+runtime.GOARCH)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{place: agent}})
	if err != nil {
		return err
	}
	file := agent + "-overlay.json"
	if err := os.WriteFile(file, overlay, 0o644); err != nil {
		return err
	}
	return compile(source, out, "./cmd/belljar", "-overlay", file)
}

// Agent returns only the agent: that of BELLJAR_TEST_PROGRAMS, or else built into dir, where every user may run it.
func Agent(dir string) (string, error) {
	return one(dir, "./cmd/belljar-agent", func(p Programs) string { return p.Agent })
}

// Net returns only the program that uses the network, as Agent does. Next to it is one linked with musl, if this machine can compile
// that.
func Net(dir string) (string, error) {
	path, err := one(dir, "./test/net", func(p Programs) string { return p.Net })
	if err != nil || Prepared() {
		return path, err
	}
	source, err := Root()
	if err != nil {
		return "", err
	}
	return path, compileMusl(source, path)
}

// Musl is the suffix of the name of the program next to Net's.
const Musl = "-musl"

func compileMusl(source, net string) error {
	compiler, err := exec.LookPath("musl-gcc")
	if err != nil {
		return nil // a test that needs it reports that
	}
	cmd := exec.Command(compiler, "-static", "-O1", "-o", net+Musl, filepath.Join(source, "test/net/musl/lookup.c"))
	if report, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", net+Musl, err, report)
	}
	return os.Chmod(net+Musl, 0o755)
}

func one(dir, pkg string, path func(Programs) string) (string, error) {
	if made := os.Getenv(programsVariable); made != "" {
		p := programs(made)
		return path(p), p.check()
	}
	source, err := Root()
	if err != nil {
		return "", err
	}
	made := path(programs(dir))
	return made, errors.Join(compile(source, made, pkg), os.Chmod(dir, 0o755), os.Chmod(made, 0o755))
}

// AgentProgram returns the agent's bytes. The first call builds it, unless BELLJAR_TEST_PROGRAMS has one.
var AgentProgram = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "belljar-agent-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path, err := Agent(dir)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

func programs(dir string) Programs {
	at := func(name string) string { return filepath.Join(dir, name) }
	return Programs{Agent: at("belljar-agent"), Belljar: at("belljar"), Forged: at("belljar-forged"), Probe: at("probe"), Soak: at("soak"), Net: at("net")}
}

// Paths returns the paths of all programs.
func (p Programs) Paths() []string {
	return []string{p.Agent, p.Belljar, p.Forged, p.Probe, p.Soak, p.Net}
}

// check reports which program is missing.
func (p Programs) check() error {
	var missing []error
	for _, path := range p.Paths() {
		if _, err := os.Stat(path); err != nil {
			missing = append(missing, fmt.Errorf("%s: %w", programsVariable, err))
		}
	}
	return errors.Join(missing...)
}

// Root is the source tree.
func Root() (string, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(dir)), nil
}

func compile(source, out, pkg string, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", out}, flags...)
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if report, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, report)
	}
	return nil
}
