package install

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar/test/need"
)

// TestNpmLeft checks which missing packages fit an image, by its C library and its version of Node.
func TestNpmLeft(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		need.Missing(t, "%v", err)
	}
	optional := map[string]string{}
	all := map[string]any{}
	for name, more := range map[string]map[string]any{
		"tool-linux-x64": nil, "tool-linux-musl-x64": nil, "img-linux-x64": nil, "img-linuxmusl-x64": nil, "css-gnu": nil, "watch-glibc": nil, "plain": nil,
		"told": {"libc": []string{"musl"}}, "old": {"engines": map[string]string{"node": ">= 4.2"}}, "future": {"engines": map[string]string{"node": ">=999"}},
		"ranges": {"engines": map[string]string{"node": "^18 || >=20"}}, "mac": {"os": []string{"darwin"}}, "here": nil,
	} {
		optional[name] = "1.0.0"
		all["node_modules/"+name] = more
	}
	top := map[string]any{"optionalDependencies": optional}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "node_modules"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, packages := range map[string]map[string]any{
		"package-lock.json": all, "node_modules/.package-lock.json": {"node_modules/top": top, "node_modules/here": map[string]any{}},
	} {
		text, err := json.Marshal(map[string]any{"packages": packages})
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for libc, want := range map[string]string{
		"glibc": "css-gnu img-linux-x64 old plain ranges tool-linux-x64 watch-glibc",
		"musl":  "img-linuxmusl-x64 old plain ranges told tool-linux-musl-x64",
	} {
		header := map[string]string{"glibc": `{glibcVersionRuntime: "2.36"}`, "musl": "{}"}[libc]
		cmd := exec.Command(node, "-e", "process.report.getReport = () => ({header: "+header+"})\n"+npmLeft)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		got := strings.Fields(string(out))
		slices.Sort(got)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %s; want %s", libc, err, got, want)
		}
	}
}
