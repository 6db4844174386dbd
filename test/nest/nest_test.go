//go:build linux

package nest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { os.Exit(Main(m.Run)) }

// TestNest: the tests see only their own processes, and orphans leave no zombies.
func TestNest(t *testing.T) {
	if os.Getenv(place) == "" {
		t.Skip("this process may not make namespaces")
	}
	want := []string{"/proc/1", "/proc/" + strconv.Itoa(os.Getpid())}
	processes := func() []string {
		list, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(list)
		return list
	}
	if got := processes(); !slices.Equal(got, want) {
		t.Errorf("processes %v, want %v", got, want)
	}
	out, err := exec.Command("sh", "-c", "sleep 0.05 >/dev/null & echo $!").Output()
	if err != nil {
		t.Fatal(err)
	}
	orphan := "/proc/" + strings.TrimSpace(string(out))
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(orphan); err != nil {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%s is left", orphan)
		}
	}
}

// TestStatus: a run that fails fails outside, too.
func TestStatus(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("NEST_TEST_FAILS") != "" {
		t.Fatal("as it should")
	}
	cmd := exec.Command(self, "-test.run=^TestStatus$")
	cmd.Env = append(os.Environ(), place+"=", "NEST_TEST_FAILS=1")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "as it should") {
		t.Errorf("%v: %s", err, out)
	}
}
