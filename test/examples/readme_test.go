//go:build linux

package examples

import (
	"context"
	"errors"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/sdk"
	"github.com/belljar/belljar/test/served"
	"github.com/belljar/belljar/test/tier"
)

var built build.Programs

// compiledPython is a folder where Python keeps what it has compiled, outside the source tree and once for all programs.
var compiledPython string

func TestMain(m *testing.M) {
	os.Exit(build.Main(func(dir string, p build.Programs) int {
		built, compiledPython = p, filepath.Join(dir, "python")
		return m.Run()
	}))
}

// patience bounds what one document shows.
var patience = 10 * time.Minute

// followed are the examples whose READMEs are followed here; those that are only programs are run by make demo.
func followed(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob("../../examples/*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range list {
		names = append(names, filepath.Base(filepath.Dir(path)))
	}
	return names
}

// TestReadmes follows every README of the examples, in a copy of them, without a server, as a new user would. It repeats those
// that show one program each with a server.
func TestReadmes(t *testing.T) {
	s := served.Start(t, built.Belljar)
	t.Run("local", func(t *testing.T) {
		for _, name := range followed(t) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				follow(t, name)
			})
		}
	})
	t.Run("server", func(t *testing.T) {
		for _, name := range followed(t) {
			t.Run(name, func(t *testing.T) {
				if slices.Contains(localOnly, name) || slices.Contains(tier.Pick(soakOnly, nil), name) {
					return
				}
				t.Parallel()
				follow(t, name, "BELLJAR_SERVER="+s.URL, "BELLJAR_API_KEY="+s.User(t, name))
			})
		}
	})
}

// localOnly are examples whose programs are no others with a server than those of other examples. TestGrader grades with a server.
// Those of the network and of the workspace API have one of their own.
var localOnly = []string{"grader", "mcp", "model", "network", "tools", "workspace"}

// soakOnly are examples that make soak alone repeats with a server: they run many programs by the means of plot and of agent.
var soakOnly = []string{"analysis", "ci"}

// before is what an example needs before its README is followed, and returns its variables; after is what must hold then.
var (
	before = map[string]func(t *testing.T, dir string) (env []string){"tools": installed, "workflow": compiled, "network": networked, "workspace": modelled}
	after  = map[string]func(t *testing.T, dir string){"plot": pictured}
)

// follow types what the README of an example shows.
func follow(t *testing.T, name string, env ...string) {
	t.Helper()
	dir := filepath.Join(copied(t), name)
	if do := before[name]; do != nil {
		env = append(env, do(t, dir)...)
	}
	list := commandsOf(t, filepath.Join(dir, "README.md"))
	printed, err := bash(t, dir, script(list), env...)
	if err != nil {
		t.Errorf("it ends with %v", err)
	}
	compare(t, list, printed)
	if do := after[name]; do != nil {
		do(t, dir)
	}
}

// pictured checks that what the plot has left is a picture with bars in it.
func pictured(t *testing.T, dir string) {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, "out/revenue.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	picture, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	colours := map[color.Color]int{}
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			colours[picture.At(x, y)]++
		}
	}
	if picture.Bounds() != image.Rect(0, 0, 480, 320) || len(colours) != 4 {
		t.Errorf("a picture of %v in the colours %v", picture.Bounds(), colours)
	}
}

// copied is a copy of the examples in a folder of the test's own.
func copied(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "examples")
	if err := os.CopyFS(dir, os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// environment is ours with belljar on the PATH and the package for Python at hand, without a word about servers.
func environment(t *testing.T, more ...string) []string {
	t.Helper()
	python, err := sdk.Python()
	if err != nil {
		t.Fatal(err)
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "BELLJAR_") || strings.HasPrefix(v, "OPENAI_") || strings.HasPrefix(v, "ANTHROPIC_")
	})
	return append(append(env, "PATH="+filepath.Dir(built.Belljar)+":/usr/bin:"+os.Getenv("PATH"), "LC_ALL=C.UTF-8",
		"PYTHONPYCACHEPREFIX="+compiledPython, "PYTHONPATH="+python, "SANDBOX_POOL_SIZE=1"), more...)
}

// bash runs a script and returns what it prints, on standard output and error alike. Everything that it starts ends with it.
func bash(t *testing.T, dir, script string, env ...string) (string, error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, "bash", "-u", "-o", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = environment(t, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = errors.Join(err, ctx.Err())
	}
	return string(out), err
}
