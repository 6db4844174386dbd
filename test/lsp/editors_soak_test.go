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
			program := need.Program(t, name)
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
			cmd.Env = append(os.Environ(), "BELLJAR_BIN="+p.belljar, "FOLDER="+folder, "SANDBOX_IMAGE_PULL=never", "HOME="+t.TempDir(), "XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "XDG_DATA_HOME=")
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASSED") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
