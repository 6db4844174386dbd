//go:build linux

package forkexec

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Stat has the fields of a process's stat file that are used here.
type Stat struct {
	StartTime uint64 // clock ticks after boot
	Forked    bool   // it has not executed a program since it was forked
}

// ReadStat reads a process's state, also after its end until it is reaped.
func ReadStat(pid int) (Stat, error) {
	raw, err := readSmall("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, err
	}
	stat, err := parseStat(raw)
	if err != nil {
		return Stat{}, fmt.Errorf("stat of process %d: %w", pid, err)
	}
	return stat, nil
}

// readSmall reads a file of less than a page in one read, without checking whether it supports the poller.
func readSmall(name string) (string, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(fd, buf)
		switch err {
		case nil:
			return string(buf[:n]), nil
		case unix.EINTR:
		default:
			return "", &os.PathError{Op: "read", Path: name, Err: err}
		}
	}
}

// parseStat parses the text of /proc/pid/stat (proc_pid_stat(5)). The command in the second field may contain blanks
// and parentheses.
func parseStat(text string) (Stat, error) {
	const (
		flags     = 9 - 3 // the fields after the command start with the third
		startTime = 22 - 3
		forked    = 0x40 // PF_FORKNOEXEC of linux/sched.h
	)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) <= startTime {
		return Stat{}, fmt.Errorf("%d fields after the command", len(fields))
	}
	bits, err := strconv.ParseUint(fields[flags], 10, 64)
	if err != nil {
		return Stat{}, err
	}
	start, err := strconv.ParseUint(fields[startTime], 10, 64)
	if err != nil {
		return Stat{}, err
	}
	return Stat{StartTime: start, Forked: bits&forked != 0}, nil
}
