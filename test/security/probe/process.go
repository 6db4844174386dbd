//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func itoa(n int) string { return strconv.Itoa(n) }

// become tries to become another user.
func become(r *report, _ []string) {
	for _, id := range []uintptr{0, 1, 65534} {
		r.refused(fmt.Sprintf("setuid %d", id), call(unix.SYS_SETUID, id))
		r.refused(fmt.Sprintf("setgid %d", id), call(unix.SYS_SETGID, id))
		r.refused(fmt.Sprintf("setresuid %d", id), call(unix.SYS_SETRESUID, id, id, id))
	}
	groups := []uint32{0}
	r.refused("setgroups", call(unix.SYS_SETGROUPS, 1, uintptr(unsafe.Pointer(&groups[0]))))
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	all := [2]unix.CapUserData{{Effective: ^uint32(0), Permitted: ^uint32(0)}, {Effective: ^uint32(0), Permitted: ^uint32(0)}}
	r.refused("capset", unix.Capset(&header, &all[0]))
	r.refused("drop no_new_privs", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0))
	r.refused("sethostname", unix.Sethostname([]byte("mine")))
}

func clock(r *report, _ []string) {
	var now unix.Timespec
	r.works("clock_gettime", unix.ClockGettime(unix.CLOCK_REALTIME, &now))
	r.refused("clock_settime", call(unix.SYS_CLOCK_SETTIME, unix.CLOCK_REALTIME, uintptr(unsafe.Pointer(&now))))
	tv := unix.Timeval{Sec: now.Sec}
	r.refused("settimeofday", unix.Settimeofday(&tv))
	timex := unix.Timex{Modes: unix.ADJ_FREQUENCY}
	_, err := unix.Adjtimex(&timex)
	r.refused("adjtimex", err)
}

// agent attacks the agent and every other process of another user: reads it, traces it, steals its descriptors,
// changes its limits and priorities, and signals it. The agent must live on.
func agent(r *report, _ []string) {
	own, err := os.Open("/proc/self/mem")
	r.works("open our own memory", err)
	own.Close()
	for _, pid := range others(r) {
		who, by := fmt.Sprintf("process %d", pid), target{r, pid}
		by.refused("PTRACE_ATTACH "+who, unix.PtraceAttach(pid))
		by.refused("PTRACE_SEIZE "+who, call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0))
		local := unix.Iovec{Base: new(byte), Len: 1}
		remote := unix.RemoteIovec{Base: 0x400000, Len: 1}
		_, err := unix.ProcessVMReadv(pid, []unix.Iovec{local}, []unix.RemoteIovec{remote}, 0)
		by.refused("process_vm_readv "+who, err, unix.EPERM)
		if pidfd, err := unix.PidfdOpen(pid, 0); err == nil {
			for fd := range 16 {
				_, err := unix.PidfdGetfd(pidfd, fd, 0)
				by.refused(fmt.Sprintf("pidfd_getfd %s/%d", who, fd), err, unix.EPERM, unix.ENOSYS)
			}
			unix.Close(pidfd)
		}
		limit := unix.Rlimit{Cur: 3, Max: 3}
		by.refused("prlimit "+who, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil), unix.EPERM)
		by.refused("setpriority "+who, unix.Setpriority(unix.PRIO_PROCESS, pid, 19), unix.EPERM, unix.EACCES)
		var cpus unix.CPUSet
		cpus.Set(0)
		by.refused("sched_setaffinity "+who, unix.SchedSetaffinity(pid, &cpus), unix.EPERM)
		param := int32(0)
		by.refused("sched_setscheduler "+who, call(unix.SYS_SCHED_SETSCHEDULER, uintptr(pid), 5, uintptr(unsafe.Pointer(&param))), unix.EPERM)
		by.refused("sched_setattr "+who, call(unix.SYS_SCHED_SETATTR, uintptr(pid), attrBlock(), 0), unix.EPERM, unix.ENOSYS)
		by.refused("ioprio_set "+who, call(unix.SYS_IOPRIO_SET, 1, uintptr(pid), 3<<13), unix.EPERM, unix.ENOSYS)
		by.refused("kcmp "+who, call(unix.SYS_KCMP, uintptr(pid), uintptr(os.Getpid()), 1, 0, 0))
		by.refused("migrate_pages "+who, call(unix.SYS_MIGRATE_PAGES, uintptr(pid), 64, block(8), block(8)))
		by.refused("move_pages "+who, call(unix.SYS_MOVE_PAGES, uintptr(pid), 1, block(8), 0, block(8), 0))
		by.refused("setpgid "+who, unix.Setpgid(pid, 0))
		for _, file := range []string{"comm", "timerslack_ns", "autogroup", "clear_refs", "coredump_filter", "uid_map", "attr/current"} {
			err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", pid, file), []byte("5"), 0)
			by.refused(fmt.Sprintf("write /proc/%d/%s", pid, file), err)
		}
		for _, file := range []string{"mem", "environ", "maps", "fd/0", "cwd/.", "root/.", "stack", "auxv", "io"} {
			f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, file))
			if err == nil {
				if file != "mem" { // which cannot be read at the address 0, even by its process
					_, err = f.Read(make([]byte, 1))
				}
				f.Close()
			}
			by.refused(fmt.Sprintf("read /proc/%d/%s", pid, file), err)
		}
		by.refused("oom_score_adj "+who, os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("1000"), 0))
	}
	if pidfd, err := unix.PidfdOpen(1, 0); err == nil {
		for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGSEGV} {
			unix.PidfdSendSignal(pidfd, sig, nil, 0)
		}
		unix.Close(pidfd)
	}
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		syscall.Kill(1, sig) // the kernel may return EPERM or drop it: the run's outcome shows that the agent lives
	}
	if err := syscall.Kill(1, 0); err != nil && err != syscall.EPERM {
		r.breach("PID 1 is gone: %v", err)
	}
}

// target is an attacked process. One that has ended in the meantime, as helpers do, proves nothing.
type target struct {
	*report
	pid int
}

func (t target) refused(what string, err error, allowed ...error) {
	if err != nil && t.pid != 1 && (errors.Is(err, syscall.ESRCH) || syscall.Kill(t.pid, 0) == syscall.ESRCH) { // the first of one that is not reaped yet
		fmt.Printf("%s: it has ended\n", what)
		return
	}
	t.report.refused(what, err, allowed...)
}

// attrBlock is a struct sched_attr that requests SCHED_IDLE.
func attrBlock() uintptr {
	b := make([]byte, 48)
	b[0], b[4] = 48, 5
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

// others lists the processes of other users, always including PID 1.
func others(r *report) []int {
	pids := []int{1}
	entries, err := os.ReadDir("/proc")
	r.works("list /proc", err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == 1 {
			continue
		}
		info, err := os.Stat("/proc/" + e.Name())
		if err == nil && int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killall sends KILL to everything this process may signal.
func killall(r *report, _ []string) {
	syscall.Kill(-1, syscall.SIGKILL)
}

// forkbomb forks until a fork is refused, and so does every child. The first process then ends with status 9, or with 1 if it made
// no child. It prints nothing: the runtime may need a thread for that, and none is left.
func forkbomb(*report, []string) {
	first, status := syscall.Getpid(), uintptr(1)
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		if errno == 0 {
			status = 9
			continue
		}
		if pid, _, _ := unix.RawSyscall(unix.SYS_GETPID, 0, 0, 0); int(pid) == first {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, status, 0, 0)
		}
	}
}

// processes starts as many processes as it can, and expects at most n, and not much fewer.
func processes(r *report, args []string) {
	n, err := strconv.Atoi(args[0])
	r.works("parse", err)
	var children []int
	for len(children) <= 2*n {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			fmt.Println("refused:", errno)
			break
		}
		if pid == 0 {
			for {
				unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
		}
		children = append(children, int(pid))
	}
	for _, pid := range children {
		unix.Kill(pid, unix.SIGKILL)
	}
	fmt.Println(len(children), "children")
	if len(children) >= n { // the shell and this process count, too
		r.breach("%d children, %d processes allowed", len(children), n)
	}
	if len(children) < n/3 { // each thread of this process counts, too
		r.breach("only %d children, %d processes allowed", len(children), n)
	}
}

// zombies makes n processes whose parent is gone when they end: PID 1 must reap them all.
func zombies(r *report, args []string) {
	n, err := strconv.Atoi(args[0])
	r.works("parse", err)
	for range n {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		for patience := 12000; errno == unix.EAGAIN && patience > 0; patience-- { // PID 1 may be slow on a busy machine
			time.Sleep(10 * time.Millisecond)
			pid, _, errno = unix.RawSyscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		}
		if errno == unix.EAGAIN {
			r.breach("no process left: zombies are not reaped")
			return
		}
		if pid == 0 {
			unix.RawSyscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0) // child and grandchild
		}
		var status unix.WaitStatus
		unix.Wait4(int(pid), &status, 0, nil)
	}
}

// survive leaves a process that has left its session, lost its parent and ignores every signal it can.
func survive(*report, []string) {
	pid, _, _ := unix.RawSyscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if pid != 0 {
		return
	}
	unix.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	if pid, _, _ := unix.RawSyscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0); pid != 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	all := ^uint64(0)
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, uintptr(unsafe.Pointer(&all)), 0, 8, 0, 0)
	for {
		unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}
