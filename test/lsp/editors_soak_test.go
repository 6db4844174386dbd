//go:build linux && soak

package lsp

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar/test/need"
)

// The scenario in editors that know nothing of Belljar.
func TestSoakEditors(t *testing.T) {
	p := ready(t)
	for name, args := range map[string][]string{
		"nvim":  {"--headless", "--clean", "-c", "luafile testdata/neovim.lua"},
		"emacs": {"--batch", "--load", "testdata/emacs.el"},
	} {
		t.Run(name, func(t *testing.T) {
			if out := p.scenario(t, need.Program(t, name), args); !strings.Contains(out, "PASSED") {
				t.Error(out)
			}
		})
	}
}

// The scenario with pytest-lsp, whose packages come into a folder of the test's own.
func TestSoakPytest(t *testing.T) {
	p := ready(t)
	const python = "/usr/bin/python3"
	dir := t.TempDir()
	install := exec.CommandContext(t.Context(), python, "-m", "pip", "install", "--quiet", "--root-user-action=ignore", "--no-deps", "--target", dir, "-r", "testdata/pytest/requirements.txt")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p.scenario(t, python, []string{"-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--asyncio-mode=auto", "testdata/pytest"}, "PYTHONPATH="+dir)
}

// scenario runs a client with a folder that has a failing program, and returns what it printed.
func (p programs) scenario(t *testing.T, program string, args []string, env ...string) string {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text := "def load(n):\n    return 1 / n\n\nif __name__ == \"__main__\":\n    print(\"hello\")\n    load(0)\n"
	if err := os.WriteFile(filepath.Join(folder, "main.py"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(append(os.Environ(), "BELLJAR_BIN="+p.belljar, "FOLDER="+folder, "SANDBOX_IMAGE_PULL=never", "HOME="+t.TempDir(), "XDG_CONFIG_HOME=",
		"XDG_STATE_HOME=", "XDG_DATA_HOME="), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}
