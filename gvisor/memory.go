package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/context"
	"gvisor.dev/gvisor/pkg/hostarch"
	"gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/ktime"
	"gvisor.dev/gvisor/pkg/sentry/pgalloc"
	"gvisor.dev/gvisor/pkg/sentry/platform"
	"gvisor.dev/gvisor/pkg/sentry/usage"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
)

const (
	// memoryLimit is the annotation of a bundle that limits the memory of its programs, in bytes, with all digits and twice:
	// "0000000000067108864 0000000000067108864". Without it, e.g. if an engine uses this program, only the cgroup limits memory.
	memoryLimit = "belljar.memory"
	limitDigits = 19
	// outOfMemory is the exit status of a kernel whose programs exceeded the limit. No agent uses it.
	outOfMemory = 86
	// fastest is the highest rate at which programs can fill memory, in bytes per second.
	fastest = 8 << 30
	// The time between two checks of the memory is at least quickLook and at most slowLook.
	slowLook  = 50 * time.Millisecond
	quickLook = 500 * time.Microsecond
)

// watch ends the kernel when its programs have more memory than limit. The host fills the pages of programs without a
// notification. So a task checks when it continues after a fault, which lets it fill at most 2 MiB, and after any other event when
// a look is due. The watch itself looks for pages that a task could fill before without a further fault, the sooner the less is
// left. While no task runs it is parked.
type watch struct {
	limit  *limit
	kernel atomic.Pointer[kernel.Kernel]
	group  atomic.Uint32 // of the tasks' memory; all of them are in one
	due    atomic.Int64  // time of the next check, in nanoseconds since start
	start  time.Time
	parked atomic.Bool
	wake   chan struct{}

	counting sync.Mutex
}

// limitMemory watches every kernel of this process. Only the command boot has a kernel.
func limitMemory(args []string) error {
	if !slices.Contains(args, "boot") {
		return nil
	}
	limit, err := limitOf(args)
	if err != nil {
		return fmt.Errorf("memory limit: %w", err)
	}
	if limit == nil {
		return nil
	}
	w := &watch{limit: limit, start: time.Now(), wake: make(chan struct{}, 1)}
	w.parked.Store(true)
	for _, name := range platform.List() {
		constructor, err := platform.Lookup(name)
		if err != nil {
			return err
		}
		platform.Register(name, watchedPlatforms{constructor, w})
	}
	go w.run()
	return w.divideTransfers()
}

// limit is the memory limit of programs, in bytes. The host can change it while they run, in the bundle's configuration, which is
// mapped.
type limit struct {
	text []byte // in the configuration, which is mapped
	last atomic.Uint64
}

// limitOf finds the limit in the bundle's configuration, which is open as the descriptor that args name; nil for none.
func limitOf(args []string) (*limit, error) {
	for i, arg := range args {
		name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if name != "spec-fd" {
			continue
		}
		if !given && i+1 < len(args) {
			value = args[i+1]
		}
		fd, err := strconv.Atoi(value)
		if err != nil {
			return nil, err
		}
		return mapLimit(fd)
	}
	return nil, errors.New("no descriptor has the configuration")
}

func mapLimit(fd int) (*limit, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	config, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	l, err := findLimit(config)
	if l == nil {
		err = errors.Join(err, unix.Munmap(config))
	}
	return l, err
}

func findLimit(config []byte) (*limit, error) {
	var spec struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := json.Unmarshal(config, &spec); err != nil {
		return nil, err
	}
	value, given := spec.Annotations[memoryLimit]
	if !given {
		return nil, nil
	}
	pair := []byte(`"` + memoryLimit + `":"` + value + `"`)
	at := bytes.Index(config, pair)
	if at < 0 {
		return nil, fmt.Errorf("annotation %s is not written as Belljar does", memoryLimit)
	}
	at += len(pair) - len(value) - 1
	l := &limit{text: config[at : at+len(value)]}
	if l.bytes() == 0 {
		return nil, fmt.Errorf("annotation %s is %q and no number of bytes", memoryLimit, value)
	}
	return l, nil
}

// bytes returns the limit. If the two copies differ, the host is writing it, and the previous value is used.
func (l *limit) bytes() uint64 {
	var now [2*limitDigits + 1]byte
	if copy(now[:], l.text) == len(now) && len(l.text) == len(now) && bytes.Equal(now[:limitDigits], now[limitDigits+1:]) {
		if n, err := strconv.ParseUint(string(now[:limitDigits]), 10, 63); err == nil && n > 0 {
			l.last.Store(n)
		}
	}
	return l.last.Load()
}

// adopt watches the memory of k. A kernel that is restored replaces the first.
func (w *watch) adopt(k *kernel.Kernel) {
	if k == nil || w.kernel.Load() == k {
		return
	}
	if err := countAsPrograms(k.ShmMount().Filesystem().Impl()); err != nil {
		panic(err)
	}
	w.kernel.Store(k)
}

// countAsPrograms counts the files of memfd_create, which are in the kernel's own memory file system, as memory of programs,
// like shared anonymous memory.
func countAsPrograms(fs vfs.FilesystemImpl) error {
	var kind reflect.Value
	if v := reflect.ValueOf(fs); v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
		kind = v.Elem().FieldByName("usage")
	}
	if !kind.IsValid() || kind.Type() != reflect.TypeFor[usage.MemoryKind]() {
		return fmt.Errorf("gVisor's memory file system has its kind of memory elsewhere: %T", fs)
	}
	*(*usage.MemoryKind)(unsafe.Pointer(kind.UnsafeAddr())) = usage.Anonymous
	return nil
}

// run looks while any task runs. A task may have found the watch awake and not be on the clock yet: looks between the parking and
// the waiting see it.
func (w *watch) run() {
	<-w.wake
	var total uint64
	var clock ktime.Time // of the tasks that run
	since := time.Now()  // when a value last changed
	for {
		left, sum := w.look()
		now, running := time.Now(), w.kernel.Load().CPUClockNow()
		if sum != total || running != clock {
			total, clock, since = sum, running, now
		}
		w.parked.Store(now.Sub(since) >= slowLook)
		if now.Sub(since) < 2*slowLook {
			time.Sleep(pause(left))
			continue
		}
		<-w.wake
		since = time.Now()
	}
}

// pause returns the least time that programs need to fill the remaining memory, within bounds.
func pause(left uint64) time.Duration {
	if left > fastest {
		return slowLook
	}
	return min(slowLook, max(quickLook, time.Duration(left)*time.Second/fastest))
}

// runs wakes a parked watch because a task is about to run its program. faulted reports whether it continues after a fault.
func (w *watch) runs(ctx context.Context, faulted bool) {
	if w.parked.Load() && w.parked.CompareAndSwap(true, false) {
		w.group.Store(pgalloc.MemoryCgroupIDFromContext(ctx))
		select {
		case w.wake <- struct{}{}:
		default: // the call is pending
		}
	}
	if faulted || time.Since(w.start) > time.Duration(w.due.Load()) {
		w.look()
	}
}

// look ends the kernel if its programs exceed the limit. It returns the remaining memory and the total of all kinds.
func (w *watch) look() (left, total uint64) {
	file := w.kernel.Load().MemoryFile()
	free, total, err := w.bound(file)
	if err == nil && free < 0 {
		free, err = w.count(file)
	}
	switch {
	case errors.Is(err, unix.EBADF):
		// The kernel has released its memory. It ends without any programs, with its own status.
		return w.limit.bytes(), 0
	case err != nil:
		end(fmt.Sprintf("memory cannot be measured: %v", err))
	case free < 0:
		end(fmt.Sprintf("programs have %d bytes of memory above the limit of %d", -free, w.limit.bytes()))
	}
	w.due.Store(int64(time.Since(w.start) + pause(uint64(free))))
	return uint64(free), total
}

// bound returns the least memory that programs may still allocate: it counts all memory as theirs unless its kind is known to be
// another. That includes released memory that is not recycled yet (usage.System), which counts for a while after the host has it
// back.
func (w *watch) bound(file *pgalloc.MemoryFile) (left int64, total uint64, err error) {
	total, err = file.TotalUsage()
	known, _ := usage.MemoryAccounting.Copy()
	others := known.Tmpfs + known.PageCache + known.Ramdiskfs
	return int64(w.limit.bytes()) - int64(total-min(total, others)), total, err
}

// count counts the memory of programs page by page, and returns how much is left. It skips the count if another one has settled it
// meanwhile.
func (w *watch) count(file *pgalloc.MemoryFile) (left int64, err error) {
	w.counting.Lock()
	defer w.counting.Unlock()
	if left, _, err := w.bound(file); left >= 0 || err != nil {
		return left, err
	}
	// With groups named the count is always done, however recent the last one. Memory that no task has allocated is in group 0.
	if err := file.UpdateUsage(map[uint32]struct{}{0: {}, w.group.Load(): {}}); err != nil {
		return 0, err
	}
	known, _ := usage.MemoryAccounting.Copy()
	return int64(w.limit.bytes()) - int64(known.Anonymous), nil
}

// end ends the kernel and all of its programs.
func end(why string) {
	log.Warningf("Belljar: %s", why)
	os.Exit(outOfMemory)
}

// watchedPlatforms makes platforms whose contexts notify a watch when they run.
type watchedPlatforms struct {
	platform.Constructor
	watch *watch
}

func (c watchedPlatforms) New(opts platform.Options) (platform.Platform, error) {
	p, err := c.Constructor.New(opts)
	return watchedPlatform{p, c.watch}, err
}

type watchedPlatform struct {
	platform.Platform
	watch *watch
}

func (p watchedPlatform) NewContext(ctx context.Context) platform.Context {
	p.watch.adopt(kernel.KernelFromContext(ctx))
	return &watchedContext{Context: p.Platform.NewContext(ctx), watch: p.watch}
}

type watchedContext struct {
	platform.Context
	watch   *watch
	faulted bool // the last time; only its task's goroutine reads it
	memory  watchedMemory
}

func (c *watchedContext) Switch(ctx context.Context, mm platform.MemoryManager, ac *arch.Context64, cpu int32) (*linux.SignalInfo, hostarch.AccessType, error) {
	c.watch.runs(ctx, c.faulted)
	c.memory.MemoryManager = mm
	info, access, err := c.Context.Switch(ctx, &c.memory, ac, cpu)
	c.faulted = access.Any()
	return info, access, err
}
