//go:build linux

package warden

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Warden watches groups from this process. Its methods are safe for concurrent use.
type Warden struct {
	logger     *slog.Logger
	poll       int
	timer      int
	wake       int
	stopped    chan struct{} // closed when run has returned
	background sync.WaitGroup

	mu      sync.Mutex
	stop    bool
	watched map[string]*watch // by folder
	events  map[int32]*watch  // by their event
	tidied  time.Time
	active  int // groups that are looked at
	buf     []byte
}

// tidyEvery is how often groups that are gone are forgotten.
const tidyEvery = 10 * time.Second

// New starts a warden. The caller closes it. A nil logger discards.
func New(logger *slog.Logger) (*Warden, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	w := &Warden{
		logger: logger, poll: -1, timer: -1, wake: -1, stopped: make(chan struct{}), tidied: time.Now(),
		watched: map[string]*watch{}, events: map[int32]*watch{}, buf: make([]byte, 8<<10),
	}
	var err error
	if w.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err == nil {
		w.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	}
	if err == nil {
		w.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	}
	for _, fd := range []int{w.timer, w.wake} {
		if err == nil {
			err = unix.EpollCtl(w.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
		}
	}
	if err != nil {
		w.close()
		return nil, fmt.Errorf("warden: %w", err)
	}
	go w.run()
	return w, nil
}

// Close ends the watch over all groups. Their limits stay as they are.
func (w *Warden) Close() error {
	w.mu.Lock()
	w.stop = true
	w.mu.Unlock()
	w.notify()
	<-w.stopped
	return nil
}

func (w *Warden) close() {
	for _, fd := range []int{w.poll, w.timer, w.wake} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// notify makes the loop look at what has changed.
func (w *Warden) notify() { unix.Write(w.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// Watch begins to watch a group, whose limit is [Limit] of its bytes, or takes note of a new figure for one. It ends by
// itself when the group is removed.
func (w *Warden) Watch(g Group) error {
	if g.Version != 1 && g.Version != 2 || g.Bytes <= 0 {
		return fmt.Errorf("watch memory of %s: version %d, %d bytes", g.Dir, g.Version, g.Bytes)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop {
		return os.ErrClosed
	}
	old := w.watched[g.Dir]
	if old != nil && old.Group == g {
		return nil
	}
	one := newWatch(g)
	if old == nil {
		w.active++
	} else {
		if old.quiet {
			w.active++
		}
		w.drop(old)
	}
	one.due = time.Now().Add(next(g.Bytes, 0, false, w.active))
	w.watched[g.Dir] = one
	w.notify()
	return nil
}

// Figures are what was seen of a group that is watched; zero if its charge was never worth a look.
func (w *Warden) Figures(dir string) Figures {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.watched[dir]; one != nil {
		return one.seen
	}
	return Figures{}
}

// Watched is how many groups are watched.
func (w *Warden) Watched() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.watched)
}

// run is the loop.
func (w *Warden) run() {
	defer close(w.stopped)
	events := make([]unix.EpollEvent, 64)
	for {
		n, err := unix.EpollWait(w.poll, events, -1)
		if err != nil && err != unix.EINTR {
			w.logger.Error("the warden of memory limits has ended", "error", err)
			return
		}
		if !w.turn(events[:max(n, 0)]) {
			break
		}
	}
	w.background.Wait()
	for _, one := range w.watched {
		one.end()
	}
	w.close()
}

// hurry gives all threads of this process precedence over programs, as far as it may, so that the loop comes before
// programs fill what room is left. Threads that are made later inherit it. One thread is not enough: the loop also depends on
// those of Go's monitor, garbage collector and scheduler, and a thread with precedence that spins until one of them continues
// keeps the processor from it.
func hurry() {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	for done, more := map[string]bool{}, true; more; {
		more = false
		tasks, _ := os.ReadDir("/proc/self/task")
		for _, task := range tasks {
			tid, err := strconv.Atoi(task.Name())
			if err != nil || done[task.Name()] {
				continue
			}
			done[task.Name()], more = true, true // it may have made another meanwhile
			if unix.SchedSetAttr(tid, &attr, 0) != nil {
				unix.Setpriority(unix.PRIO_PROCESS, tid, -20)
			}
		}
	}
}

// turn does what is due. It returns false when it was the last.
func (w *Warden) turn(events []unix.EpollEvent) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop {
		return false
	}
	now := time.Now()
	for _, e := range events {
		if one := w.events[e.Fd]; one != nil {
			w.triggered(one, now)
			continue
		}
		if fd := int(e.Fd); fd == w.timer || fd == w.wake { // else its group was dropped just now
			var count [8]byte
			unix.Read(fd, count[:])
		}
	}
	first := now.Add(tidyEvery)
	for _, one := range w.watched {
		if one.quiet {
			continue
		}
		if !one.due.After(now) {
			w.step(one)
		}
		if !one.quiet && one.due.Before(first) {
			first = one.due
		}
	}
	if now.Sub(w.tidied) >= tidyEvery {
		w.tidied = now
		w.tidy()
	}
	var at unix.ItimerSpec
	if len(w.watched) > 0 {
		at.Value = unix.NsecToTimespec(max(int64(time.Until(first)), 1))
	}
	if err := unix.TimerfdSettime(w.timer, 0, &at, nil); err != nil {
		w.logger.Error("warden", "error", err)
	}
	return true
}

// triggered notes that a group has reached the trip.
func (w *Warden) triggered(one *watch, now time.Time) {
	if !one.quiet {
		return
	}
	one.quiet, one.calm, one.due = false, 0, now
	w.active++
	if err := one.disableEvent(); err != nil && !gone(err) {
		w.logger.Warn("watch memory", "cgroup", one.Dir, "error", err)
	}
}

// step looks at one group and sets when to look again, or leaves that to the kernel's event.
func (w *Warden) step(one *watch) {
	charged, held, err := one.look(w.buf)
	if gone(err) {
		w.forget(one)
		return
	}
	if err != nil {
		w.logger.Warn("watch memory", "cgroup", one.Dir, "error", err)
		one.due = time.Now().Add(longest)
		return
	}
	one.due = time.Now().Add(next(one.Bytes, held, charged > one.charged, w.active))
	one.charged = charged
	if charged >= Trip(one.Bytes)-slack(one.Bytes)/8 {
		one.calm = 0
		return
	}
	one.calm++
	switch {
	case one.event < 0 && !one.arming:
		one.arming = true
		w.background.Add(1)
		go w.arm(one)
	case one.event >= 0 && one.calm > 1:
		w.rest(one)
	}
}

// rest leaves a group alone until the kernel reports it.
func (w *Warden) rest(one *watch) {
	err := one.enableEvent()
	if err == nil {
		want := uint32(unix.EPOLLIN)
		if one.Version == 2 {
			want = unix.EPOLLPRI
		}
		err = unix.EpollCtl(w.poll, unix.EPOLL_CTL_MOD, one.event, &unix.EpollEvent{Events: want | unix.EPOLLONESHOT, Fd: int32(one.event)})
	}
	if err != nil {
		if !gone(err) {
			w.logger.Warn("watch memory", "cgroup", one.Dir, "error", err)
		}
		return
	}
	one.quiet = true
	w.active--
	// What came between the look and the event was not reported.
	if charged, err := number(one.fdUsage); err != nil || charged >= Trip(one.Bytes) {
		w.triggered(one, time.Now())
		return
	}
	if least := pages(Limit(one.Bytes)); one.max > least {
		if err := one.set(least); err != nil {
			w.triggered(one, time.Now())
			return
		}
	}
	one.release()
}

// arm makes the event of a group, which is looked at meanwhile.
func (w *Warden) arm(one *watch) {
	defer w.background.Done()
	event, err := arm(one.Group)
	w.mu.Lock()
	defer w.mu.Unlock()
	one.arming = false
	if err == nil && w.watched[one.Dir] != one {
		unix.Close(event) // forgotten meanwhile
		return
	}
	if err == nil {
		err = unix.EpollCtl(w.poll, unix.EPOLL_CTL_ADD, event, &unix.EpollEvent{Events: unix.EPOLLONESHOT, Fd: int32(event)})
		if err != nil {
			unix.Close(event)
		}
	}
	if err != nil {
		if !gone(err) { // looks continue, and try again
			w.logger.Warn("watch memory", "cgroup", one.Dir, "error", err)
		}
		return
	}
	one.event = event
	w.events[int32(event)] = one
}

// forget ends the watch over a group.
func (w *Warden) forget(one *watch) {
	if !one.quiet {
		w.active--
	}
	w.drop(one)
	delete(w.watched, one.Dir)
}

// drop gives back what a watch has.
func (w *Warden) drop(one *watch) {
	if one.event >= 0 {
		delete(w.events, int32(one.event))
		unix.EpollCtl(w.poll, unix.EPOLL_CTL_DEL, one.event, nil)
	}
	one.end()
}

// tidy forgets groups that are gone.
func (w *Warden) tidy() {
	for _, one := range w.watched {
		if !there(one.Dir) {
			w.forget(one)
		}
	}
}

// abandon forgets groups in which nothing runs any longer, and that are removed by the next daemon if there is one.
func (w *Warden) abandon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.watched {
		if !populated(one.Dir) {
			w.forget(one)
		}
	}
}

func there(dir string) bool {
	var st unix.Stat_t
	return unix.Lstat(dir, &st) == nil
}

// populated reports whether a process is in a group, or in one below it.
func populated(dir string) bool {
	list, err := os.ReadFile(dir + "/cgroup.procs")
	if err != nil || len(list) > 0 {
		return err == nil
	}
	below, _ := os.ReadDir(dir)
	for _, e := range below {
		if e.IsDir() && populated(dir+"/"+e.Name()) {
			return true
		}
	}
	return false
}
