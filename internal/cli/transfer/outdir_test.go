package transfer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

// TestOutDir: the names of artifacts come from untrusted programs, and the folder's contents may too.
func TestOutDir(t *testing.T) {
	top := t.TempDir()
	o, err := OpenOutDir(filepath.Join(top, "new", "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	write(t, filepath.Join(top, "victim"), "precious", 0o644)
	for name, target := range map[string]string{"file": "../../victim", "folder": "../..", "inner": "real"} {
		if err := os.Symlink(target, filepath.Join(o.Name, name)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(o.Name, "real", "x"), "mine", 0o644)

	save := func(path string, mode uint32) error {
		return o.Save(belljar.Artifact{Path: path, Mode: mode}, strings.NewReader("theirs"))
	}
	for _, path := range []string{"../victim", "/etc/passwd", "a/../../victim", "folder/victim", "inner/x", ".", "", "a\x00b"} {
		if err := save(path, 0); err == nil {
			t.Errorf("saved as %q", path)
		}
	}
	for _, path := range []string{"file", "new", "deep/er/file", "/workspace/absolute", "\xff", "\xfe"} {
		if err := save(path, 0o4777); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for path, want := range map[string]string{
		top + "/victim": "precious", o.Name + "/real/x": "mine",
		o.Name + "/file": "theirs", o.Name + "/deep/er/file": "theirs", o.Name + "/absolute": "theirs", o.Name + "/\xff": "theirs",
	} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
	if info, err := os.Lstat(o.Name + "/new"); err != nil || info.Mode() != 0o755 {
		t.Errorf("mode of an artifact with set-id bits: %v, %v", info.Mode(), err)
	}
	if err := save("deep", 0); err == nil || err.Error() != o.Name+"/deep is in the way: a folder" {
		t.Errorf("in place of a folder: %v", err)
	}
	left, err := filepath.Glob(o.Name + "/.belljar-*")
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files left: %v, %v", left, err)
	}
}
