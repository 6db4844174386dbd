package audit

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/test/need"
)

// A full disk loses lines, which are counted. When there is room again, the trail continues with complete lines.
func TestDiskFull(t *testing.T) {
	folder := make(chan *os.File, 1)
	release := make(chan struct{})
	mounted := make(chan error, 1)
	dir := t.TempDir()
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, and its mounts, end with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size=64k")
		}
		if err != nil {
			mounted <- err
			return
		}
		f, err := os.Open(dir)
		folder <- f
		mounted <- err
		<-release
	}()
	if err := <-mounted; errors.Is(err, os.ErrPermission) {
		need.Missing(t, "a mount: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer close(release)
	f := <-folder
	defer f.Close()
	path := fmt.Sprintf("/proc/self/fd/%d", f.Fd()) // reaches the mount from every thread

	ballast := path + "/ballast"
	if err := os.WriteFile(ballast, make([]byte, 32<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	trail := open(t, Options{Path: path})
	const events = 200
	for i := range events {
		trail.Record(event.Event{
			Name: event.RunCreated, Run: &belljar.Run{ID: fmt.Sprint(i)}, Detail: map[string]string{"x": strings.Repeat("x", 900)},
		})
		waitUntil(t, func() bool { return len(trail.queue) == 0 })
	}
	waitUntil(t, func() bool { return trail.lost.Load() > 0 })
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	trail.Record(event.Event{Name: event.RunQueued})
	kept, lost, after := 0, 0, 0
	for _, l := range lines(t, trail, "20251028") {
		switch l["event"] {
		case event.RunCreated:
			kept++
		case event.RunQueued:
			after++
		case Lost:
			lost += int(l["count"].(float64))
		}
	}
	if kept == 0 || lost == 0 || kept+lost != events || after != 1 {
		t.Errorf("%d kept and %d lost of %d, %d after", kept, lost, events, after)
	}
}
