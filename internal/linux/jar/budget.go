//go:build linux

package jar

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
)

// budgets are the limits that a user namespace inherits when it is made, and that apply to all its users together. A process
// that sets them before it makes a namespace limits everything inside.
var budgets = map[int]uint64{
	unix.RLIMIT_SIGPENDING: 1024,      // queued signals and POSIX timers
	unix.RLIMIT_MSGQUEUE:   800 << 10, // bytes of POSIX message queues; the kernel's default
	unix.RLIMIT_MEMLOCK:    8 << 20,   // locked bytes; the kernel's default
}

// bound sets the budgets.
func bound(p *forkexec.Program) {
	for resource, most := range budgets {
		Rlimit(p, resource, most)
	}
}

// Rlimit sets a limit, at most this process's own, which a process in a user namespace cannot raise.
func Rlimit(p *forkexec.Program, resource int, most uint64) {
	var own unix.Rlimit
	if unix.Getrlimit(resource, &own) == nil {
		most = min(most, own.Max)
	}
	limit := &unix.Rlimit{Cur: most, Max: most}
	p.Call(unix.SYS_PRLIMIT64, forkexec.Int(0), forkexec.Int(resource), forkexec.Ptr(p, limit), forkexec.Int(0))
}

// watches are the limits of inotify instances and watches of a sandbox. Each instance can watch the same file of the host, and each
// use of that file, also on the host, then adds an event to each instance.
var watches = map[string]int{"max_inotify_instances": 32, "max_inotify_watches": 16384}

// BoundWatches sets them in the user namespace of the program, in which it must be privileged. A sandbox with its own owner has
// the host's limit of watches to itself.
func (b *Birth) BoundWatches(p *forkexec.Program) {
	for name, most := range watches {
		if b.IDs.Owner != 0 && name == "max_inotify_watches" {
			continue
		}
		text := strconv.Itoa(most)
		fd := p.Open(unix.SYS_OPENAT, forkexec.Int(unix.AT_FDCWD), p.Str("/proc/sys/user/"+name), forkexec.Int(unix.O_WRONLY|unix.O_CLOEXEC), forkexec.Int(0))
		p.UnlessError(func() {
			p.Call(unix.SYS_WRITE, fd, p.Str(text), forkexec.Int(len(text)))
			p.Close(fd)
		}, unix.EROFS, unix.ENOENT) // an outer container may forbid it; a kernel may have no inotify
	}
}
