package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

func TestDataIsLocked(t *testing.T) {
	if path := os.Getenv("BELLJAR_TEST_DATA"); path != "" { // the other daemon
		if _, err := openData(path); err != nil {
			fmt.Print(belljar.CodeOf(err))
		}
		return
	}
	path := filepath.Join(t.TempDir(), "a", "b")
	d, err := openData(path)
	if err != nil {
		t.Fatal(err)
	}
	other := func() string {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestDataIsLocked$")
		cmd.Env = append(os.Environ(), "BELLJAR_TEST_DATA="+path)
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("the other daemon: %v", err)
		}
		return string(out)
	}
	if got := other(); !strings.HasPrefix(got, string(belljar.CodeConflict)) {
		t.Errorf("a second daemon: %q", got)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if got := other(); !strings.HasPrefix(got, "PASS") {
		t.Errorf("after the first has ended: %q", got)
	}
}

func TestSecretsAreMadeOnceAndKept(t *testing.T) {
	d, err := openData(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	first, made, err := d.secret("key", newKey)
	if err != nil || !made || len(first) < 40 {
		t.Fatalf("first: %q %v %v", first, made, err)
	}
	second, made, err := d.secret("key", newKey)
	if err != nil || made || second != first {
		t.Errorf("second: %q %v %v, want %q", second, made, err, first)
	}
	info, err := os.Stat(d.in("key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode: %v %v", info, err)
	}
	if err := os.WriteFile(d.in("empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, made, err := d.secret("empty", newKey); err != nil || !made || got == "" {
		t.Errorf("an empty file, as a full disk leaves it: %q %v %v", got, made, err)
	}
}

func TestUnusableData(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openData(file); err == nil || belljar.HintOf(err) == "" {
		t.Errorf("a file as the folder: %v", err)
	}
}
