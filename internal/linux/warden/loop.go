//go:build linux

package warden

import (
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// loop watches groups from one thread.
type loop struct {
	logger     *slog.Logger
	on         unix.CPUSet // empty for all processors
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
	next    time.Time     // for which the timer is set; zero if it is not
	active  int           // groups with looks
	full    int           // of these, those whose last look was a full one
	looking bool          // the next wait is for a look
	cost    time.Duration // of a look, on average
	buf     []byte
}

// tidyEvery is how often groups that are gone are dropped.
const tidyEvery = 10 * time.Second

func newLoop(logger *slog.Logger, on unix.CPUSet) (*loop, error) {
	l := &loop{
		logger: logger, on: on, poll: -1, timer: -1, wake: -1, stopped: make(chan struct{}), tidied: time.Now(),
		watched: map[string]*watch{}, events: map[int32]*watch{}, buf: make([]byte, 8<<10),
	}
	var err error
	if l.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err == nil {
		l.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	}
	if err == nil {
		l.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	}
	for _, fd := range []int{l.timer, l.wake} {
		if err == nil {
			err = unix.EpollCtl(l.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
		}
	}
	if err != nil {
		l.closeFDs()
		return nil, err
	}
	go l.run()
	return l, nil
}

// close ends the loop.
func (l *loop) close() {
	l.mu.Lock()
	l.stop = true
	l.mu.Unlock()
	l.notify()
	<-l.stopped
}

func (l *loop) closeFDs() {
	for _, fd := range []int{l.poll, l.timer, l.wake} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// notify makes the loop check for changes.
func (l *loop) notify() { unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// watch starts watching a group.
func (l *loop) watch(g Group) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop {
		return os.ErrClosed
	}
	old, inode := l.watched[g.Dir], inodeOf(g.Dir)
	if old != nil && old.Group == g && old.inode == inode { // another inode is a group that was removed and made again
		return nil
	}
	one := newWatch(g)
	one.inode = inode
	if old == nil {
		l.active++
	} else {
		if old.quiet {
			l.active++
		}
		l.drop(old)
	}
	if g.Version == 2 { // an earlier watch or warden may have left a threshold, which slows the programs
		if err := writeFile(g.Dir, "memory.high", "max"); err != nil && !gone(err) {
			l.logger.Warn("watch memory", "cgroup", g.Dir, "error", err)
		}
	}
	one.due = time.Now().Add(next(g.Bytes, 0, false, l.active, l.full, l.cost))
	l.watched[g.Dir] = one
	if l.next.IsZero() || one.due.Before(l.next) {
		l.wakeAt(one.due)
	}
	return nil
}

// wakeAt sets the timer, or stops it for a zero time.
func (l *loop) wakeAt(t time.Time) {
	l.next = t
	var at unix.ItimerSpec
	if !t.IsZero() {
		at.Value = unix.NsecToTimespec(max(int64(time.Until(t)), 1))
	}
	if err := unix.TimerfdSettime(l.timer, 0, &at, nil); err != nil {
		l.logger.Error("warden", "error", err)
	}
}

func (l *loop) figures(dir string) Figures {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.watched[dir]; one != nil {
		return one.seen
	}
	return Figures{}
}

func (l *loop) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.watched)
}

// run runs the loop on its thread and processors. If they are offline, it runs on any.
func (l *loop) run() {
	defer close(l.stopped)
	runtime.LockOSThread()
	if l.on.Count() > 0 {
		_ = unix.SchedSetaffinity(0, &l.on)
	}
	events := make([]unix.EpollEvent, 64)
	for {
		n, err := l.wait(events)
		if err != nil && err != unix.EINTR {
			l.logger.Error("the warden of memory limits has ended", "error", err)
			return
		}
		if !l.turn(events[:max(n, 0)]) {
			break
		}
	}
	l.background.Wait()
	for _, one := range l.watched {
		one.end()
	}
	l.closeFDs()
}

// wait waits for events. A wait for a look keeps Go's processor: releasing and reacquiring it takes as long as a look, needs locks that
// threads of the other loop may hold while they are preempted, and has Go's monitor watch the thread every 20 microseconds. After 10 ms
// Go interrupts such a wait.
func (l *loop) wait(events []unix.EpollEvent) (int, error) {
	if !l.looking {
		return unix.EpollWait(l.poll, events, -1)
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.poll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), ^uintptr(0), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// turn does all work that is due. It returns false at the end.
func (l *loop) turn(events []unix.EpollEvent) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop {
		return false
	}
	now := time.Now()
	for _, e := range events {
		if one := l.events[e.Fd]; one != nil {
			l.triggered(one, now)
			continue
		}
		if fd := int(e.Fd); fd == l.timer || fd == l.wake { // else its group was just dropped
			var count [8]byte
			unix.Read(fd, count[:])
		}
	}
	first := now.Add(tidyEvery)
	l.full = 0
	for _, one := range l.watched {
		if !one.quiet && one.full {
			l.full++
		}
	}
	for _, one := range l.watched {
		if one.quiet {
			continue
		}
		if !one.due.After(now.Add(one.early())) {
			l.step(one)
		}
		if !one.quiet && one.due.Before(first) {
			first = one.due
		}
	}
	if now.Sub(l.tidied) >= tidyEvery {
		l.tidied = now
		l.tidy()
	}
	if len(l.watched) == 0 {
		first = time.Time{}
	}
	l.looking = l.active > 0
	l.wakeAt(first)
	return true
}

// triggered handles a group that has reached the threshold.
func (l *loop) triggered(one *watch, now time.Time) {
	if !one.quiet {
		return
	}
	one.quiet, one.calm, one.due = false, 0, now
	l.active++
	if err := one.disableEvent(); err != nil && !gone(err) {
		l.logger.Warn("watch memory", "cgroup", one.Dir, "error", err)
	}
}

// step looks at one group, if it needs a look, and schedules the next, or waits for the kernel's event.
func (l *loop) step(one *watch) {
	charged, err := one.charge()
	held, below := charged, one.below(charged)
	if one.full = err == nil && !below; one.full {
		begin := time.Now()
		charged, held, err = one.look(l.buf)
		l.cost += (min(time.Since(begin), dearest) - l.cost) / 16
	}
	if gone(err) {
		l.forget(one)
		return
	}
	if err != nil {
		l.logger.Warn("watch memory", "cgroup", one.Dir, "error", err)
		one.due = time.Now().Add(longest)
		return
	}
	one.wait = next(one.Bytes, held, charged > one.charged, l.active, l.full, l.cost)
	one.due = time.Now().Add(one.wait)
	one.charged = charged
	if !below || !one.below(charged) {
		one.calm = 0
		return
	}
	one.calm++
	switch {
	case one.event < 0 && !one.arming && one.calm > young:
		one.arming = true
		l.background.Add(1)
		go l.arm(one)
	case one.event >= 0 && one.calm > 1:
		l.rest(one)
	}
}

// rest stops the looks at a group until the kernel reports it.
func (l *loop) rest(one *watch) {
	err := one.enableEvent()
	if err == nil {
		want := uint32(unix.EPOLLIN)
		if one.Version == 2 {
			want = unix.EPOLLPRI
		}
		err = unix.EpollCtl(l.poll, unix.EPOLL_CTL_MOD, one.event, &unix.EpollEvent{Events: want | unix.EPOLLONESHOT, Fd: int32(one.event)})
	}
	if err != nil {
		if !gone(err) {
			l.logger.Warn("watch memory", "cgroup", one.Dir, "error", err)
		}
		return
	}
	one.quiet = true
	l.active--
	// The kernel did not report a change between the look and the event.
	if calm, err := one.settle(); err != nil || !calm {
		l.triggered(one, time.Now())
		return
	}
	one.release()
}

// arm makes the event of a group. The looks continue meanwhile.
func (l *loop) arm(one *watch) {
	defer l.background.Done()
	event, err := arm(one.Group)
	l.mu.Lock()
	defer l.mu.Unlock()
	one.arming = false
	if err == nil && l.watched[one.Dir] != one {
		unix.Close(event) // dropped meanwhile
		return
	}
	if err == nil {
		err = unix.EpollCtl(l.poll, unix.EPOLL_CTL_ADD, event, &unix.EpollEvent{Events: unix.EPOLLONESHOT, Fd: int32(event)})
		if err != nil {
			unix.Close(event)
		}
	}
	if err != nil {
		if !gone(err) { // looks continue and retry
			l.logger.Warn("watch memory", "cgroup", one.Dir, "error", err)
		}
		return
	}
	one.event = event
	l.events[int32(event)] = one
	if one.calm > 0 {
		l.rest(one)
	}
	if !one.quiet && one.due.Before(l.next) {
		l.wakeAt(one.due)
	}
}

// forget stops watching a group.
func (l *loop) forget(one *watch) {
	if !one.quiet {
		l.active--
	}
	l.drop(one)
	delete(l.watched, one.Dir)
}

// drop releases the resources of a watch.
func (l *loop) drop(one *watch) {
	if one.event >= 0 {
		delete(l.events, int32(one.event))
		unix.EpollCtl(l.poll, unix.EPOLL_CTL_DEL, one.event, nil)
	}
	one.end()
}

// tidy drops groups that are gone, also if another has their name.
func (l *loop) tidy() {
	for _, one := range l.watched {
		if inode := inodeOf(one.Dir); inode == 0 || inode != one.inode {
			l.forget(one)
		}
	}
}

// abandon drops groups without processes.
func (l *loop) abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.watched {
		if !populated(one.Dir) {
			l.forget(one)
		}
	}
}

// inodeOf returns the inode of a folder; 0 if it is gone. No later cgroup has the same one.
func inodeOf(dir string) uint64 {
	var st unix.Stat_t
	if unix.Lstat(dir, &st) != nil {
		return 0
	}
	return st.Ino
}

// populated reports whether a group, or one below it, has a process.
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
