//go:build linux && soak

package examples

import (
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestSoakGrader judges a class of 200 students on a busy machine, by root, by a server and as an ordinary user
// with their own cgroups. Each verdict must be the one that the program was written for.
func TestSoakGrader(t *testing.T) {
	ways := []struct {
		name string
		open func(t *testing.T) *grader
	}{
		{"root", func(t *testing.T) *grader { return asRoot(t) }},
		{"server", byServer},
		{"rootless", func(t *testing.T) *grader { return rootless(t, true) }},
	}
	patience = time.Hour // a class takes ten minutes if the machine has other load than the busy loops
	for range 2 {
		busy := exec.Command("sh", "-c", "while kill -0 $PPID; do :; done") // ends with this process, however it ends
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		defer busy.Wait()
		defer busy.Process.Kill()
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			g := way.open(t)
			if out, err := bash(t, g.dir, "python3 course.py class"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			file, err := os.Open(filepath.Join(g.dir, "class/expected.csv"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			expected, err := csv.NewReader(file).ReadAll()
			if err != nil || len(expected) != 201 {
				t.Fatalf("%d programs, %v", len(expected)-1, err)
			}
			begin := time.Now()
			status, verdicts, output := g.grade(t, "class")
			t.Logf("graded in %v", time.Since(begin).Round(time.Second))
			if status != 0 || output != "" {
				t.Errorf("it ends with %d: %s", status, output)
			}
			for _, row := range expected[1:] {
				if got := verdicts["class/"+row[0]]; got != row[1] {
					t.Errorf("%s: %q, want %s", row[0], got, row[1])
				}
			}
		})
	}
}
