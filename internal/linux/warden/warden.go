//go:build linux

package warden

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Warden watches groups from this process, with two loops on different processors that share nothing. Its methods are safe for
// concurrent use.
type Warden struct {
	loops []*loop
}

// New starts a warden. The caller must close it. A nil logger discards. While a loop looks at groups, it keeps one of Go's processors, so the
// process needs more of them than loops.
func New(logger *slog.Logger) (*Warden, error) {
	logger = cmp.Or(logger, slog.New(slog.DiscardHandler))
	w := &Warden{}
	for _, on := range halves() {
		l, err := newLoop(logger, on)
		if err != nil {
			w.Close()
			return nil, fmt.Errorf("warden: %w", err)
		}
		w.loops = append(w.loops, l)
	}
	return w, nil
}

// Close stops watching all groups. Their limits stay unchanged.
func (w *Warden) Close() error {
	for _, l := range w.loops {
		l.close()
	}
	return nil
}

// Watch starts watching a group, and sets its limit to [Limit] of its bytes. For a watched group it changes the bytes. The watch
// ends when the group is removed.
func (w *Warden) Watch(g Group) error {
	if g.Version != 1 && g.Version != 2 || g.Bytes <= 0 {
		return fmt.Errorf("watch memory of %s: version %d, %d bytes", g.Dir, g.Version, g.Bytes)
	}
	for _, l := range w.loops {
		if err := l.watch(g); err != nil {
			return err
		}
	}
	return nil
}

// Figures returns the highest values seen of a watched group; zero if its charge never reached the threshold.
func (w *Warden) Figures(dir string) (most Figures) {
	for _, l := range w.loops {
		seen := l.figures(dir)
		most.PeakMemory, most.PeakFiles = max(most.PeakMemory, seen.PeakMemory), max(most.PeakFiles, seen.PeakFiles)
	}
	return most
}

// Watched returns how many groups are watched.
func (w *Warden) Watched() (n int) {
	for _, l := range w.loops {
		n = max(n, l.count())
	}
	return n
}

// abandon drops groups without processes. The next daemon, if there is one, removes them.
func (w *Warden) abandon() {
	for _, l := range w.loops {
		l.abandon()
	}
}

// halves divides the processors that this process may use between two loops: every second one is the first's. With one processor
// there is one loop.
func halves() []unix.CPUSet {
	var all unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil || all.Count() < 2 {
		return []unix.CPUSet{{}} // all processors
	}
	sets := make([]unix.CPUSet, 2)
	for cpu, n := 0, 0; n < all.Count(); cpu++ {
		if all.IsSet(cpu) {
			sets[n%2].Set(cpu)
			n++
		}
	}
	return sets
}

// longestSpin is how long a thread with precedence may compute without waiting. A look takes microseconds.
const longestSpin = 500 * time.Millisecond

// raisePriority gives all threads of this process precedence over programs, if it may, so that the loop runs before programs
// fill the remaining room. Later threads inherit it. One thread is not enough: the loop also depends on the threads of Go's
// monitor, garbage collector and scheduler, and a thread with precedence that spins for one of them would keep the processor
// from it. For the same reason the threads take turns. A thread that spins for longestSpin could block a processor of the
// machine: the kernel kills the process, and its client starts another.
func raisePriority() {
	microseconds := uint64(longestSpin.Microseconds())
	if unix.Setrlimit(unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: microseconds, Max: microseconds}) != nil {
		return // no precedence without this limit
	}
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
	for done, more := map[string]bool{}, true; more; {
		more = false
		tasks, _ := os.ReadDir("/proc/self/task")
		for _, task := range tasks {
			tid, err := strconv.Atoi(task.Name())
			if err != nil || done[task.Name()] {
				continue
			}
			done[task.Name()], more = true, true // it may have made another thread meanwhile
			if unix.SchedSetAttr(tid, &attr, 0) != nil {
				unix.Setpriority(unix.PRIO_PROCESS, tid, -20)
			}
		}
	}
}
