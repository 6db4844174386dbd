//go:build linux

package native

import (
	"os"
	"runtime"
	"testing"
)

// The links of a process's task folder are its threads and two, as many as the folder has entries.
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
	// The runtime may start another thread meanwhile, but ends none.
	before, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	n := tasks(os.Getpid())
	after, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	if n < int64(len(before)) || n > int64(len(after)) {
		t.Errorf("%d threads, want %d to %d", n, len(before), len(after))
	}
	if n := tasks(1 << 30); n != 0 {
		t.Errorf("%d threads of no process", n)
	}
}
