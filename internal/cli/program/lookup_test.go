package program

import (
	"os"
	"path/filepath"
	"testing"
)

func TestHostImage(t *testing.T) {
	root := t.TempDir()
	usr, etc, home := filepath.Join(root, "usr"), filepath.Join(root, "etc"), filepath.Join(root, "home")
	for _, dir := range []string{usr + "/bin", usr + "/extra", etc, home} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program := func(name string, mode os.FileMode) {
		if err := os.WriteFile(name, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	link := func(name, target string) {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	program(usr+"/bin/plain", 0o755)
	program(usr+"/bin/not-executable", 0o644)
	program(usr+"/bin/only-owner", 0o700)
	program(usr+"/extra/far", 0o755)
	program(home+"/private", 0o755)
	link(usr+"/bin/relative", "plain")
	link(usr+"/bin/to-home", home+"/private")
	link(usr+"/bin/alternative", etc+"/alternative")
	link(etc+"/alternative", usr+"/bin/relative")
	link(usr+"/bin/broken", "nothing")
	link(usr+"/bin/loop", "loop")

	path := make([]string, standardPath, standardPath+1)
	path[0] = usr + "/bin"
	h := hostImage{visible: []string{usr}, path: append(path, usr+"/extra")}
	for name, want := range map[string]string{
		"plain":          "plain",
		"relative":       "relative",
		"alternative":    usr + "/bin/relative", // the link in /etc does not exist inside
		"far":            usr + "/extra/far",    // not in PATH inside
		"to-home":        "",
		"not-executable": "",
		"only-owner":     "",
		"broken":         "",
		"loop":           "",
		"missing":        "",
	} {
		if got := h.find(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
