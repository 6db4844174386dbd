//go:build linux

package cgroup

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Watch waits for the kernel to report that an installation is short of memory. It is not safe for concurrent use.
type Watch struct {
	whole   *Installation
	percent []int64
	cancel  int   // an eventfd; -1 without
	fds     []int // descriptors that the kernel makes ready
	events  int16
	inode   uint64 // of the watched folder
}

// Watch reports when the memory in use crosses the given percentages of the bound. In v2 the kernel announces only the last of
// them, and slows processes that allocate beyond it, so that there is time to act. If Watch returns an error, the watch still
// works, but reports nothing.
func (w *Installation) Watch(percent ...int64) (*Watch, error) {
	watch := &Watch{whole: w, percent: percent, cancel: -1}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return watch, fmt.Errorf("eventfd: %w", err)
	}
	watch.cancel = fd
	return watch, watch.arm()
}

// Close ends the watch.
func (w *Watch) Close() {
	w.disarm()
	if w.cancel >= 0 {
		unix.Close(w.cancel)
		w.cancel = -1
	}
}

func (w *Watch) disarm() {
	for _, fd := range w.fds {
		unix.Close(fd)
	}
	w.fds = nil
}

// arm makes the kernel announce crossings. The folder may have been removed, and made again, since the last call.
func (w *Watch) arm() error {
	w.disarm()
	w.inode = inodeOf(w.whole.dir)
	bound := w.whole.Bound()
	if bound == 0 {
		return nil
	}
	if w.whole.version == 2 {
		high := strconv.FormatInt(pages(bound/100*w.percent[len(w.percent)-1]), 10)
		if err := write(filepath.Join(w.whole.dir, "memory.high"), high); err != nil {
			return err
		}
		fd, err := open(filepath.Join(w.whole.dir, "memory.events"), unix.O_RDONLY)
		if err == nil {
			w.fds, w.events = append(w.fds, fd), unix.POLLPRI
		}
		return err
	}
	usage, err := open(filepath.Join(w.whole.dir, "memory.usage_in_bytes"), unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(usage)
	for _, percent := range w.percent {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			return fmt.Errorf("eventfd: %w", err)
		}
		w.fds, w.events = append(w.fds, fd), unix.POLLIN
		line := fmt.Sprintf("%d %d %d", fd, usage, bound/100*percent)
		if err := write(filepath.Join(w.whole.dir, "cgroup.event_control"), line); err != nil {
			return err
		}
	}
	return nil
}

// Wait returns when the kernel announces a crossing, when ctx is done, and at the latest after atMost.
func (w *Watch) Wait(ctx context.Context, atMost time.Duration) {
	if w.cancel < 0 {
		select {
		case <-ctx.Done():
		case <-time.After(atMost):
		}
		return
	}
	if inodeOf(w.whole.dir) != w.inode {
		_ = w.arm() // without announcements the caller still looks after atMost
	}
	stop := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		unix.Write(w.cancel, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		close(stop)
	})
	defer func() {
		if !unhook() {
			<-stop // the descriptor must not be closed under the write
		}
	}()
	var text [256]byte
	poll := []unix.PollFd{{Fd: int32(w.cancel), Events: unix.POLLIN}}
	for _, fd := range w.fds {
		poll = append(poll, unix.PollFd{Fd: int32(fd), Events: w.events})
	}
	if n, err := unix.Poll(poll, int(atMost.Milliseconds())); err != nil || n == 0 {
		return
	}
	for _, fd := range w.fds { // reset, so that only the next event wakes
		if w.events == unix.POLLPRI {
			unix.Pread(fd, text[:], 0)
		} else {
			unix.Read(fd, text[:8])
		}
	}
}

func inodeOf(name string) uint64 {
	var st unix.Stat_t
	if unix.Stat(name, &st) != nil {
		return 0
	}
	return st.Ino
}
