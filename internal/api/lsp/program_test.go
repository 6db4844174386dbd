//go:build linux

package lsp

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Without pytest, unittest runs a test of a class in a class, or all tests of a class.
func TestUnittests(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3")
	}
	file := filepath.Join(t.TempDir(), "test_x.py")
	text := `import unittest
class TestA:
    class TestB:
        def test_x(self): print("x runs")
        def test_y(self): print("y runs")
    class Case(unittest.TestCase):
        def test_z(self): print("z runs")
    def test_a(self): print("a runs")
def test_f(): print("f runs")
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"TestA::TestB::test_x": "x", "TestA::TestB": "xy", "TestA::Case": "z", "TestA::Case::test_z": "z", "TestA::test_a": "a", "TestA": "a", "test_f": "f",
	} {
		out, err := exec.CommandContext(t.Context(), "python3", "-S", "-B", "-c", unittests, file, name).CombinedOutput() // -S: without installed packages
		got := ""
		for _, test := range []string{"a", "f", "x", "y", "z"} {
			if strings.Contains(string(out), test+" runs") {
				got += test
			}
		}
		if err != nil || got != want {
			t.Errorf("%s runs %q, want %q: %v\n%s", name, got, want, err, out)
		}
	}
}
