//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const mib = 1 << 20

// killed is the exit status of a program that detects that one of its processes was killed.
const killed = 137

// allowed returns how much a program may hold under a limit in MiB: more is a breach.
func allowed(r *report, limit string) int64 {
	n, err := strconv.ParseInt(limit, 10, 64)
	if err != nil {
		r.breach("control: %v", err)
		os.Exit(1)
	}
	return n*mib + max(n*mib/20, 8*mib)
}

// base returns the memory of this program itself, 0 if the kernel does not report it.
func base() int64 {
	raw, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(raw), "\n") {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "RssAnon:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// taker takes one more MiB.
type taker func() error

// takers are the kinds of memory that a program can use.
func takers() map[string]taker {
	return map[string]taker{
		"mmap":    private,
		"brk":     brk(),
		"shared":  shared,
		"memfd":   memfd,
		"sysv":    sysv,
		"huge":    huge(),
		"madvise": madvise,
		"tree":    offspring(touchAll),
		"objects": offspring(openMany),
		"pipes":   pipes,
		"unix":    unixSockets,
		"splice":  spliced,
	}
}

// hold takes memory of some kinds in turns until it is killed or has more than allowed. It drops a kind that the kernel refuses,
// and ends with private memory.
func hold(r *report, args []string) {
	most, held, all := allowed(r, args[0]), base(), takers()
	kinds := args[1:]
	for _, kind := range kinds {
		if all[kind] == nil {
			r.breach("control: no such kind of memory: %s", kind)
			return
		}
	}
	for {
		var left []string
		for _, kind := range kinds {
			if err := all[kind](); err != nil {
				fmt.Printf("%s: %v, with %d KiB held\n", kind, err, held>>10)
				continue
			}
			left = append(left, kind)
			held += mib
			fmt.Printf("%d KiB\n", held>>10)
			if held > most && alive() {
				r.breach("%d KiB are held, %d KiB may be", held>>10, most>>10)
				return
			}
		}
		if len(left) == 0 && slices.Contains(kinds, "mmap") {
			os.Exit(killed) // a refusal counts as killed
		}
		if kinds = left; len(kinds) == 0 {
			kinds = []string{"mmap"}
		}
	}
}

// keep holds that many MiB, including itself, while a program runs, and exits with that program's status.
func keep(r *report, args []string) {
	most, err := strconv.ParseInt(args[0], 10, 64)
	r.works("parse", err)
	for held := base() + mib/2; held < most*mib; held += mib {
		if err := private(); err != nil {
			r.breach("mmap: %v", err)
			return
		}
	}
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		r.breach("%v: %v", args[1:], err)
	}
}

func touch(b []byte) {
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
}

func private() error {
	b, err := unix.Mmap(-1, 0, mib, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	touch(b)
	return err
}

func shared() error {
	b, err := unix.Mmap(-1, 0, mib, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	touch(b)
	return err
}

// memfd makes a file that no file system shows, and maps none of it.
func memfd() error {
	fd, err := unix.MemfdCreate("hoard", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, make([]byte, mib))
	return err
}

func brk() taker {
	end, _, _ := unix.RawSyscall(unix.SYS_BRK, 0, 0, 0)
	return func() error {
		next, _, _ := unix.RawSyscall(unix.SYS_BRK, end+mib, 0, 0)
		if next != end+mib {
			return unix.ENOMEM
		}
		touch(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), end)), mib))
		end = next
		return nil
	}
}

func sysv() error {
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, mib, 0o600|unix.IPC_CREAT)
	if err != nil {
		return err
	}
	b, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		return err
	}
	touch(b)
	_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	return err
}

// huge uses huge pages, each of which takes many pages.
func huge() taker {
	var room []byte
	return func() error {
		if len(room) == 0 {
			const size = 64 * mib
			var err error
			if room, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
				return err
			}
			unix.Madvise(room, unix.MADV_HUGEPAGE) // a kernel may not support it
		}
		touch(room[:mib])
		room = room[mib:]
		return nil
	}
}

// madvise marks memory as unneeded, and continues to use it.
func madvise() error {
	b, err := unix.Mmap(-1, 0, mib, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	for _, advice := range []int{unix.MADV_FREE, unix.MADV_DONTNEED, unix.MADV_COLD, unix.MADV_PAGEOUT, unix.MADV_FREE} {
		touch(b)
		unix.Madvise(b, advice) // a kernel may not support it
	}
	touch(b)
	return nil
}

// children are the sockets of the processes that hold memory for the probe.
var children []int

// offspring starts another process that calls what.
func offspring(what func(unsafe.Pointer, uintptr) uintptr) taker {
	return func() error {
		room, err := unix.Mmap(-1, 0, mib, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return err
		}
		defer unix.Munmap(room)
		_, _, err = spawn(unsafe.Pointer(&room[0]), mib, what)
		return err
	}
}

// spawn starts a process that calls what with room. The process answers on fd when it is done, and again whenever alive checks it.
func spawn(room unsafe.Pointer, size uintptr, what func(unsafe.Pointer, uintptr) uintptr) (pid, fd int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	child, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		unix.Close(pair[0])
		unix.Close(pair[1])
		return 0, 0, errno
	}
	if child == 0 { // Go's runtime does not work in this process
		unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
		answer := [1]byte{byte(what(room, size))}
		unix.RawSyscall(unix.SYS_CLOSE, uintptr(pair[0]), 0, 0)
		for {
			unix.RawSyscall(unix.SYS_WRITE, uintptr(pair[1]), uintptr(unsafe.Pointer(&answer[0])), 1)
			if n, _, _ := unix.RawSyscall(unix.SYS_READ, uintptr(pair[1]), uintptr(unsafe.Pointer(&answer[0])), 1); n != 1 {
				unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
		}
	}
	unix.Close(pair[1])
	children = append(children, pair[0])
	if errno := answerOf(pair[0]); errno != 0 {
		return 0, 0, errno
	}
	return int(child), pair[0], nil
}

// reap ends a child process and waits for its end.
func reap(pid, fd int) {
	syscall.Kill(pid, syscall.SIGKILL)
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(pid, &status, 0, nil); err != unix.EINTR {
			break
		}
	}
	unix.Close(fd)
	children = slices.DeleteFunc(children, func(other int) bool { return other == fd })
}

// answerOf waits for a process's message. A killed process sends none, and the probe then exits as if it had been killed.
func answerOf(fd int) syscall.Errno {
	var b [1]byte
	for {
		n, err := unix.Read(fd, b[:])
		if err == unix.EINTR {
			continue
		}
		if n != 1 {
			fmt.Println("a process of ours was killed")
			os.Exit(killed)
		}
		return syscall.Errno(b[0])
	}
}

// alive reports whether all started processes are still there, with their memory.
func alive() bool {
	for _, fd := range children {
		unix.Write(fd, []byte{0})
		answerOf(fd)
	}
	return true
}

// touchAll runs in a child process.
func touchAll(room unsafe.Pointer, size uintptr) uintptr {
	for i := uintptr(0); i < size; i += 4096 {
		*(*byte)(unsafe.Add(room, i)) = 1
	}
	return 0
}

// openMany makes the kernel hold at least a MiB for that many sockets.
func openMany(unsafe.Pointer, uintptr) uintptr {
	const atLeast = 1536 // bytes of a socket, its inode, name and file
	for range mib / atLeast {
		if _, _, errno := unix.RawSyscall(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_DGRAM, 0); errno != 0 {
			return uintptr(errno)
		}
	}
	return 0
}

// burst takes private memory in several threads, as fast as possible.
func burst(r *report, args []string) {
	most := allowed(r, args[0])
	var held atomic.Int64
	held.Store(base())
	const threads = 4
	runtime.GOMAXPROCS(threads)
	room, err := unix.Mmap(-1, 0, int(most)+threads*mib, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		r.breach("control: %v", err)
		return
	}
	const piece = 64 << 10
	var next atomic.Int64
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			for held.Load() <= most {
				at := next.Add(piece)
				if at > int64(len(room)) {
					return
				}
				touch(room[at-piece : at])
				held.Add(piece)
			}
		})
	}
	all.Wait()
	r.breach("%d KiB are held, %d KiB may be", held.Load()>>10, most>>10)
}
