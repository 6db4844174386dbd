//go:build linux

package native

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// The link count of a process's task folder is its number of threads plus two.
func TestTasksAreThreads(t *testing.T) {
	held := make(chan struct{})
	defer close(held)
	for range 3 {
		ready := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			close(ready)
			<-held
		}()
		<-ready
	}
	threads := func() (names []string) {
		list, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			names = append(names, e.Name())
		}
		return names
	}
	for until := time.Now().Add(time.Minute); ; {
		before, n, after := threads(), tasks(os.Getpid()), threads()
		if !slices.Equal(before, after) && time.Now().Before(until) {
			continue // a thread began or ended meanwhile, as Go's do
		}
		if n != int64(len(after)) {
			t.Errorf("%d threads, want %d", n, len(after))
		}
		break
	}
	if n := tasks(1 << 30); n != 0 {
		t.Errorf("%d threads of no process", n)
	}
}

// A kernel may have a version of Landlock that is too old: the hint names the kernel that is needed.
func TestLandlockHint(t *testing.T) {
	if p := (&Runtime{}).landlock(); p.Enforced || !strings.Contains(p.Hint, "Linux 5.19") {
		t.Errorf("%+v", p)
	}
}
