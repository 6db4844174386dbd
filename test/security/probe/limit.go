//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// limits tries to raise each of its own limits.
func limits(r *report, _ []string) {
	names := map[string]int{
		"as": unix.RLIMIT_AS, "core": unix.RLIMIT_CORE, "cpu": unix.RLIMIT_CPU, "data": unix.RLIMIT_DATA, "fsize": unix.RLIMIT_FSIZE,
		"locks": unix.RLIMIT_LOCKS, "memlock": unix.RLIMIT_MEMLOCK, "msgqueue": unix.RLIMIT_MSGQUEUE, "nice": unix.RLIMIT_NICE,
		"nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC, "rss": unix.RLIMIT_RSS, "rtprio": unix.RLIMIT_RTPRIO,
		"rttime": unix.RLIMIT_RTTIME, "sigpending": unix.RLIMIT_SIGPENDING, "stack": unix.RLIMIT_STACK,
	}
	finite := 0
	for name, which := range names {
		var is unix.Rlimit
		if err := unix.Prlimit(0, which, nil, &is); err != nil {
			fmt.Printf("%s: %v\n", name, err)
			continue
		}
		if is.Max == ^uint64(0) {
			fmt.Printf("%s: no limit\n", name)
			continue
		}
		finite++
		for _, more := range []uint64{is.Max + 1, 2*is.Max + 2, ^uint64(0)} {
			if err := unix.Prlimit(0, which, &unix.Rlimit{Cur: more, Max: more}, nil); err == nil {
				r.breach("%s was raised from %d to %d", name, is.Max, more)
			}
		}
	}
	if finite < 3 {
		r.breach("control: only %d limits", finite)
	}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}, nil); err != nil {
		r.breach("control: a limit cannot be lowered: %v", err)
	}
	r.refused("a limit that was lowered, raised", unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 65, Max: 65}, nil), unix.EPERM)
}

// priority requests a higher priority than the default.
func priority(r *report, _ []string) {
	if !ownKernel() { // gVisor's kernel records it without effect
		r.refused("nice -20", unix.Setpriority(unix.PRIO_PROCESS, 0, -20), unix.EACCES, unix.EPERM)
	}
	for name, policy := range map[string]uintptr{"SCHED_FIFO": 1, "SCHED_RR": 2} {
		param := int32(1)
		r.refused(name, call(unix.SYS_SCHED_SETSCHEDULER, 0, policy, uintptr(unsafe.Pointer(&param))), unix.EPERM, unix.EINVAL, unix.ENOSYS)
	}
	deadline := make([]uint64, 6) // struct sched_attr: size and policy, flags, nice and priority, runtime, deadline, period
	deadline[0], deadline[3], deadline[4], deadline[5] = 48|6<<32, 1e6, 1e7, 1e7
	r.refused("SCHED_DEADLINE", call(unix.SYS_SCHED_SETATTR, 0, uintptr(unsafe.Pointer(&deadline[0])), 0), unix.EPERM, unix.EINVAL, unix.ENOSYS)
	r.refused("real-time disk class", call(unix.SYS_IOPRIO_SET, 1, 0, 1<<13), unix.EPERM, unix.ENOSYS)
	r.refused("cores that run nothing of others", unix.Prctl(unix.PR_SCHED_CORE, unix.PR_SCHED_CORE_CREATE, 0, 1, 0), unix.EINVAL)
	r.works("nicer", unix.Setpriority(unix.PRIO_PROCESS, 0, 19))
}

// spin computes in that many threads, until it is killed.
func spin(r *report, args []string) {
	n, err := strconv.Atoi(args[0])
	r.works("parse", err)
	runtime.GOMAXPROCS(n)
	for range n {
		go func() {
			for n := 0; ; n++ { // without a function call
			}
		}()
	}
	select {}
}

// dodge computes without end, but sleeps at each moment at which a tick-based clock would sample.
func dodge(r *report, args []string) {
	tick, err := time.ParseDuration(args[0])
	r.works("parse", err)
	runtime.LockOSThread()
	begin := time.Now()
	for {
		if left := tick - time.Since(begin)%tick; left < tick/4 {
			time.Sleep(left + tick/20)
		}
	}
}

// terminals opens as many terminals as possible, or as many as allowed; with the second argument, the next one must be
// refused.
func terminals(r *report, args []string) {
	most, err := strconv.Atoi(args[0])
	r.works("parse", err)
	opened := 0
	for ; opened <= most; opened++ {
		if _, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0); err != nil {
			break
		}
	}
	if opened == 0 {
		r.breach("control: no terminal can be opened: %v", err)
	}
	if len(args) > 1 {
		r.refused(fmt.Sprintf("terminal number %d", opened+1), err, unix.ENOSPC)
	}
	fmt.Printf("%d terminals\n", opened)
}

// foreign searches for processes and process groups that /proc does not show, by number.
func foreign(r *report, args []string) {
	most, err := strconv.Atoi(args[0])
	r.works("parse", err)
	r.works("ourselves", syscall.Kill(os.Getpid(), 0))
	shown := func(pid int) bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		return err == nil
	}
	found := 0
	for pid := 1; pid <= most; pid++ {
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			found++
			// A thread can be signalled by its number, too, and is visible to any process that knows the number.
			if !shown(pid) && syscall.Kill(pid, 0) != syscall.ESRCH {
				r.breach("process %d is there: %v", pid, err)
			}
		}
		if err := syscall.Kill(-pid, 0); pid > 1 && err == nil && !shown(pid) && syscall.Kill(-pid, 0) == nil && !ours(pid) {
			r.breach("group %d is there", pid)
		}
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			unix.Close(fd)
			if !shown(pid) {
				r.breach("process %d can be held", pid)
			}
		}
	}
	if found == 0 || found > 64 {
		r.breach("control: %d processes", found)
	}
}

// ours reports whether a group is that of a visible process: its leader may have ended.
func ours(group int) bool {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if pgid, err := unix.Getpgid(pid); err == nil && pgid == group {
			return true
		}
	}
	return false
}
