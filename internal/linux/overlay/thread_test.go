//go:build linux

package overlay

import (
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// The main thread would stay in a sandbox's namespaces, and /proc/self would show them.
func TestNeverOnTheMainThread(t *testing.T) {
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			err := onOwnThread(func() error {
				if unix.Gettid() == unix.Getpid() {
					t.Error("on the main thread")
				}
				runtime.Gosched()
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
