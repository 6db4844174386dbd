//go:build linux

package warden

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Group is a memory cgroup to be watched.
type Group struct {
	Dir     string `json:"dir"`     // of the group
	Version int    `json:"version"` // 1 or 2
	Bytes   int64  `json:"bytes"`   // limit of its programs
}

// Figures are the highest values that a warden has seen of a group.
type Figures struct {
	PeakMemory int64 `json:"peak_memory"` // of the programs, at a look
	PeakFiles  int64 `json:"peak_files"`
}

// Mounts are the places of our memory file systems in a sandbox.
func Mounts() []string { return []string{"", "workspace", "tmp", "run", "dev", "dev/shm"} }

// watch is one watched group. Only the loop uses it, except for arming.
type watch struct {
	Group
	files
	inode uint64 // of its folder
	max   int64  // the kernel's limit, as the last look found or set it
	seen  Figures

	event   int // reports a charge above the threshold; -1 while there is none
	arming  bool
	quiet   bool          // the event is enabled, and there are no looks
	charged int64         // at the last look
	full    bool          // the last look was a full one
	calm    int           // consecutive looks that found the charge below the threshold
	due     time.Time     // of the next look, unless quiet
	wait    time.Duration // from the last look until due

	// Open while the group has looks, else -1.
	fdUsage, fdLimit, fdBoth, fdStat int
	proc                             int      // the /proc folder of one of its processes
	mounts                           [][]byte // below its root
	held                             int64    // size of our file systems at the last look
}

func newWatch(g Group) *watch {
	return &watch{Group: g, files: filesOf(g.Version), event: -1, fdUsage: -1, fdLimit: -1, fdBoth: -1, fdStat: -1, proc: -1}
}

// charge returns what the group is charged.
func (w *watch) charge() (charged int64, err error) {
	if w.fdUsage < 0 {
		if w.fdUsage, err = open(w.Dir, w.usage, unix.O_RDONLY); err != nil {
			return 0, err
		}
	}
	return number(w.fdUsage)
}

// below reports whether a charge is so far below the threshold that the group needs no look: its programs hold at most that.
func (w *watch) below(charged int64) bool { return charged < Threshold(w.Bytes)-slack(w.Bytes)/8 }

// early is how long before it is due a look at a calm group may come, along with others: to wake takes longer than to look.
func (w *watch) early() time.Duration {
	if w.calm == 0 {
		return 0
	}
	return w.wait / 4
}

// open opens the descriptors for a look, or none. [watch.charge] opens that of the charge.
func (w *watch) open() (err error) {
	if w.fdLimit >= 0 {
		return nil
	}
	defer func() {
		if err != nil {
			w.release()
		}
	}()
	if w.fdLimit, err = open(w.Dir, w.limit, unix.O_RDWR); err != nil {
		return err
	}
	if w.fdStat, err = open(w.Dir, "memory.stat", unix.O_RDONLY); err != nil {
		return err
	}
	if w.both != "" {
		if w.fdBoth, err = open(w.Dir, w.both, unix.O_WRONLY); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}

// release closes the descriptors of a look.
func (w *watch) release() {
	for _, fd := range []*int{&w.fdUsage, &w.fdLimit, &w.fdBoth, &w.fdStat, &w.proc} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

// end closes all descriptors.
func (w *watch) end() {
	w.release()
	if w.event >= 0 {
		unix.Close(w.event)
		w.event = -1
	}
}

// inForce returns the kernel's limit. The other loop, and requests for another limit, change it too.
func (w *watch) inForce() (int64, error) {
	limit, err := number(w.fdLimit)
	if errors.Is(err, strconv.ErrSyntax) { // "max"
		return math.MaxInt64, nil
	}
	return limit, err
}

// look sets the limit for the present size of the files. It returns the group's charge, and an upper bound of the memory of its programs.
// An error means that the group is gone. A look allocates no memory, because a garbage collection would delay the next.
func (w *watch) look(buf []byte) (charged, held int64, err error) {
	if err := w.open(); err != nil {
		return 0, 0, err
	}
	if w.max, err = w.inForce(); err != nil {
		return 0, 0, err
	}
	files := w.inFiles()
	if charged, err = w.charge(); err != nil {
		return 0, 0, err
	}
	held = max(charged-files, 0)
	want := pages(Limit(w.Bytes) + files)
	if want > w.max { // first, since files may be growing fast
		if err := w.change(want); err != nil {
			return 0, 0, err
		}
	}
	if held > w.Bytes/2 { // it may include cache, which takes longer to find out
		cache, err := sum(w.fdStat, w.cache[:], buf)
		if err != nil {
			return 0, 0, err
		}
		held = max(held-cache, 0)
	}
	w.seen.PeakMemory, w.seen.PeakFiles = max(w.seen.PeakMemory, held), max(w.seen.PeakFiles, files)
	switch {
	case want < w.max && held > Limit(w.Bytes):
		// The programs have taken memory that files freed. Their present memory becomes their limit: the kernel kills the process that
		// allocates more.
		if want = max(want, pages(charged)); want < w.max {
			err = w.change(want)
		}
	case want < w.max:
		err = w.change(want)
	}
	return charged, held, err
}

// settle sets the limit of a group without files, which is enough below the threshold. It reports whether the group is below that.
func (w *watch) settle() (bool, error) {
	if err := w.open(); err != nil {
		return false, err
	}
	limit, err := w.inForce()
	if err != nil {
		return false, err
	}
	// After the limit: if files grow from here on, and the other loop raises the limit for them, change leaves it alone.
	charged, err := w.charge()
	if err != nil || charged >= Threshold(w.Bytes) {
		return false, err
	}
	w.max = limit
	if least := pages(Limit(w.Bytes)); limit != least {
		err = w.change(least)
	}
	return true, err
}

// change sets another limit, unless the limit has changed since the look: this thread may have been preempted, while files grew and the
// other loop noticed it.
func (w *watch) change(limit int64) error {
	if now, err := w.inForce(); err != nil || now != w.max {
		return err
	}
	return w.set(limit)
}

// set sets the kernel's limit. The kernel refuses a limit below the charge, or one that conflicts with a concurrent change; the next look
// retries.
func (w *watch) set(limit int64) error {
	var buf [32]byte
	value := strconv.AppendInt(buf[:0], limit, 10)
	order := [2]int{w.fdLimit, w.fdBoth}
	if limit > w.max {
		order = [2]int{w.fdBoth, w.fdLimit}
	}
	for _, fd := range order {
		if fd < 0 {
			continue
		}
		if err := write(fd, value); errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EINVAL) {
			return nil
		} else if err != nil {
			return err
		}
	}
	w.max = limit
	return nil
}

// inFiles returns the size of our file systems, which are reached through a process of the group. If there is none, e.g. when all are about
// to end, it returns the last size.
func (w *watch) inFiles() int64 {
	for range 2 {
		if w.proc >= 0 {
			if total, err := holdings(w.mounts); err == nil {
				w.held = total
				break
			}
			unix.Close(w.proc) // the process has ended
			w.proc = -1
		}
		w.find()
	}
	return w.held
}

// rootOf returns the root of the process whose /proc folder is open.
func rootOf(proc int) string { return "/proc/self/fd/" + strconv.Itoa(proc) + "/root/" }

// Files returns the size of our file systems in the sandbox with that first process; 0 if it has ended.
func Files(pid int) int64 {
	total, err := holdings(mountsOf("/proc/" + strconv.Itoa(pid) + "/root/"))
	if err != nil {
		return 0
	}
	return total
}

// inodeBytes is what the kernel charges for an empty file: its inode and its name.
const inodeBytes = 960

// mountsOf returns the paths of the mounts below a sandbox's root, in the form that [statfs] needs.
func mountsOf(root string) (paths [][]byte) {
	for _, name := range Mounts() {
		paths = append(paths, append([]byte(root+name), 0))
	}
	return paths
}

// holdings adds up the sizes of the file systems of mounts. /workspace and the following /tmp may be the same one. A workspace that begins
// with files is an overlay, which reports the figures of its memory file system.
func holdings(mounts [][]byte) (total int64, err error) {
	var last unix.Statfs_t
	for i, path := range mounts {
		var st unix.Statfs_t
		if err := statfs(path, &st); err != nil {
			return 0, err
		}
		if inMemory(&st) && !(i > 0 && alike(&st, &last) && (st.Type != last.Type || same(mounts[i-1], path))) {
			total += int64(st.Blocks-st.Bfree)*st.Bsize + int64(st.Files-st.Ffree)*inodeBytes
		}
		last = st
	}
	return total, nil
}

func inMemory(st *unix.Statfs_t) bool {
	return st.Type == unix.TMPFS_MAGIC || st.Type == unix.OVERLAYFS_SUPER_MAGIC
}

// alike reports whether two mounts may have the same file system: their sizes are equal.
func alike(a, b *unix.Statfs_t) bool {
	return inMemory(a) && inMemory(b) && a.Blocks == b.Blocks && a.Files == b.Files
}

// same reports whether two paths are in one file system.
func same(a, b []byte) bool {
	one, err1 := device(a)
	other, err2 := device(b)
	return err1 == nil && err2 == nil && one == other
}

// find looks for a process of the group that has a root; a process whose first thread has ended has none. The root is the sandbox's, which
// programs can neither change nor mount upon.
func (w *watch) find() {
	list, err := os.ReadFile(w.Dir + "/cgroup.procs")
	if err != nil {
		return
	}
	for _, pid := range strings.Fields(string(list)) {
		fd, err := open("/proc", pid, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			continue
		}
		var st unix.Statfs_t
		// Read the list again, now that the descriptor cannot become another process's.
		list, err := os.ReadFile(w.Dir + "/cgroup.procs")
		if err == nil && strings.Contains("\n"+string(list), "\n"+pid+"\n") && unix.Statfs(rootOf(fd), &st) == nil {
			w.proc, w.mounts = fd, mountsOf(rootOf(fd))
			return
		}
		unix.Close(fd)
	}
}

// enableEvent makes the kernel report the next charge above the threshold.
func (w *watch) enableEvent() error {
	if w.Version == 2 {
		return writeFile(w.Dir, "memory.high", strconv.FormatInt(Threshold(w.Bytes), 10))
	}
	var count [8]byte
	unix.Read(w.event, count[:]) // of earlier crossings
	return nil
}

// disableEvent removes the setting of enableEvent, which slows the programs.
func (w *watch) disableEvent() error {
	if w.Version == 2 {
		var buf [1 << 10]byte
		_, err := text(w.event, buf[:]) // the read arms the next event
		return errors.Join(err, writeFile(w.Dir, "memory.high", "max"))
	}
	return nil
}

// arm makes the event. It may take long, so the loop does not call it.
func arm(g Group) (event int, err error) {
	switch g.Version {
	case 1:
		return threshold(g.Dir, Threshold(g.Bytes))
	case 2:
		return open(g.Dir, "memory.events", unix.O_RDONLY)
	}
	return -1, fmt.Errorf("cgroup version %d", g.Version)
}
