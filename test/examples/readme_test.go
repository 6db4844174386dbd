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

// compiledPython is a folder for Python's compiled files, outside the source tree and shared by all programs.
var compiledPython string

func TestMain(m *testing.M) {
	os.Exit(build.Main(func(dir string, p build.Programs) int {
		built, compiledPython = p, filepath.Join(dir, "python")
		return m.Run()
	}))
}

// patience limits the commands of one document.
var patience = 10 * time.Minute

// followed returns the examples whose READMEs are tested here; make demo runs those that consist only of programs.
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

// TestReadmes follows every README of the examples in a copy, without a server, like a new user. It repeats the READMEs that show
// one program each with a server.
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

// localOnly are examples that test nothing new with a server: other examples run such programs there. TestGrader grades with a
// server. The examples of the network and of the workspace API start their own.
var localOnly = []string{"grader", "mcp", "model", "network", "tools", "workspace"}

// soakOnly are examples that only make soak repeats with a server: they run many programs, in the same way as plot and agent.
var soakOnly = []string{"analysis", "ci"}

// before prepares an example before its README is followed, and returns its variables; after checks the result.
var (
	before = map[string]func(t *testing.T, dir string) (env []string){"tools": installed, "workflow": compiled, "network": networked, "workspace": modelled}
	after  = map[string]func(t *testing.T, dir string){"plot": pictured}
)

// follow runs the commands of an example's README.
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

// pictured checks that the plot's artifact is a picture with bars in it.
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

// copied returns a copy of the examples in the test's own folder.
func copied(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "examples")
	if err := os.CopyFS(dir, os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// environment returns this process's environment with belljar on the PATH and the Python package available, and without settings
// for servers.
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

// bash runs a script and returns its output, standard output and error together. All processes that it starts end with it.
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
