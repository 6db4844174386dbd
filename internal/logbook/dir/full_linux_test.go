package dir

import (
	"context"
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/test/need"
)

// onSmallDisk runs f on a thread with a file system of the given size mounted at path, visible to that thread only.
func onSmallDisk(t *testing.T, size string, f func(path string)) {
	t.Helper()
	path := t.TempDir()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, and its mount, end with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount("tmpfs", path, "tmpfs", 0, "mode=0700,size="+size)
		}
		if err == nil {
			f(path)
		}
		done <- err
	}()
	if err := <-done; errors.Is(err, os.ErrPermission) {
		need.Missing(t, "a mount: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// A full disk fails the whole append. When there is room again, the log continues without a gap.
func TestDiskFull(t *testing.T) {
	onSmallDisk(t, "256k", func(path string) {
		book := openBook(t, path)
		log, err := book.Create("run")
		if err != nil {
			t.Error(err)
			return
		}
		ballast := path + "/ballast"
		if err := os.WriteFile(ballast, make([]byte, 128<<10), 0o600); err != nil {
			t.Error(err)
			return
		}
		kept := uint64(0)
		output := make([]byte, 10000)
		for {
			err := log.Append(belljar.Frame{Type: belljar.FrameStdout, Output: output})
			if err != nil {
				if !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("Append: %v, want ENOSPC", err)
				}
				break
			}
			kept++
		}
		if got := log.Last(); kept == 0 || got != kept {
			t.Errorf("last is %d, want %d", got, kept)
		}
		if err := os.Remove(ballast); err != nil {
			t.Error(err)
		}
		if err := log.Append(belljar.Frame{Type: belljar.FrameStdout, Output: []byte("on")}); err != nil {
			t.Errorf("Append with room: %v", err)
		}
		if err := log.Seal(); err != nil {
			t.Errorf("Seal: %v", err)
		}
		next := uint64(1)
		again, err := openBook(t, path).Open("run")
		if err != nil {
			t.Error(err)
			return
		}
		for f, err := range again.Read(t.Context(), 1) {
			if err != nil || f.Seq != next {
				t.Errorf("frame %d: seq %d, %v", next, f.Seq, err)
				return
			}
			next++
		}
		if next != kept+2 {
			t.Errorf("%d frames, want %d", next-1, kept+1)
		}
	})
}

// On a disk without any room a log cannot be sealed, but it ends for its readers. It is sealed when there is room again.
func TestSealWithoutRoom(t *testing.T) {
	onSmallDisk(t, "64k", func(path string) {
		log, err := openBook(t, path).Create("run")
		ballast := path + "/ballast"
		if err == nil {
			err = log.Append(belljar.Frame{Type: belljar.FrameStdout, Output: []byte("x")})
		}
		if err == nil {
			err = os.WriteFile(ballast, make([]byte, 64<<10), 0o600)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%v, want ENOSPC", err)
			return
		}
		one := belljar.Frame{Type: belljar.FrameStdout, Output: []byte("x")}
		for err = nil; err == nil; {
			err = log.Append(one)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		read := func() (n uint64, err error) {
			for _, err := range log.Read(ctx, 1) {
				if err != nil {
					return n, err
				}
				n++
			}
			return n, nil
		}
		waiting := make(chan error, 1)
		go func() {
			_, err := read()
			waiting <- err
		}()
		if err := log.Seal(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Seal: %v, want ENOSPC", err)
		}
		if n, err := read(); err != nil || n != log.Last() {
			t.Errorf("a later reader: %d of %d frames, %v", n, log.Last(), err)
		}
		if err := <-waiting; err != nil {
			t.Errorf("an earlier reader: %v", err)
		}
		if err := errors.Join(os.Remove(ballast), log.Seal()); err != nil {
			t.Errorf("with room: %v", err)
		}
		if err := log.Append(one); !errors.Is(err, logbook.ErrSealed) {
			t.Errorf("Append: %v, want ErrSealed", err)
		}
		if again, err := openBook(t, path).Open("run"); err != nil || again.Last() != log.Last() || again.Seal() != nil {
			t.Errorf("opened again: %v", err)
		}
	})
}
