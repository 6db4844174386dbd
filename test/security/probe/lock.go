//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

// takeLocks takes locks of one byte each, on its own file, until it is refused or has most.
func takeLocks(r *report, command, most int) (n int, err error) {
	f, err := os.CreateTemp("/tmp", "lock")
	r.works("a file", err)
	for ; n < most && err == nil; n++ {
		err = unix.FcntlFlock(f.Fd(), command, &unix.Flock_t{Type: unix.F_WRLCK, Start: int64(2 * n), Len: 1})
	}
	if err != nil {
		n--
	}
	return n, err
}

// locks takes file locks in several processes, some of which end while another has their file table, and counts all.
func locks(r *report, args []string) {
	most, err := strconv.Atoi(args[0])
	r.works("parse", err)
	if n, err := takeLocks(r, unix.F_OFD_SETLK, 10); n > 0 {
		r.breach("%d locks of an open file: %v", n, err)
	}
	all := 0
	for _, how := range []string{"hide", "hide", "hide", "stay", "stay"} {
		cmd := exec.Command("/proc/self/exe", "lock", how, strconv.Itoa(most))
		out, err := cmd.StdoutPipe()
		r.works("pipe", err)
		r.works("start", cmd.Start())
		n := 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, err := fmt.Sscanf(lines.Text(), "took %d", &n); err == nil {
				break
			}
		}
		fmt.Printf("%s: %d locks\n", how, n)
		all += n
	}
	if all == 0 {
		r.breach("control: no lock at all")
	}
	if all > most {
		r.breach("%d file locks, and not %d at most", all, most)
	}
}

// lock is one process that takes locks.
func lock(r *report, args []string) {
	most, err := strconv.Atoi(args[1])
	r.works("parse", err)
	if args[0] == "hide" {
		most /= 5
	}
	n, _ := takeLocks(r, unix.F_SETLK, most+1)
	fmt.Printf("took %d\n", n)
	if args[0] == "hide" { // a process that shares this file table outlives this process
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_FILES|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		for errno == 0 && pid == 0 {
			unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
		}
		return
	}
	unix.Pause()
}
