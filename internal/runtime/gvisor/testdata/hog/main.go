// Command hog allocates some MiB of one kind of memory, reports that it has them, and waits for the end of its input.
package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"unsafe"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: hog mmap|brk|memfd|written|shared|sysv|read|fork|prepared|populated|readv|copied|random|reserved MIB")
		os.Exit(2)
	}
	mib, err := strconv.Atoi(os.Args[2])
	if err == nil {
		err = take(os.Args[1], mib<<20)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hog:", err)
		os.Exit(1)
	}
	fmt.Println("has it")
	io.Copy(io.Discard, os.Stdin)
}

func take(kind string, size int) error {
	switch kind {
	case "mmap":
		return mapped(syscall.MAP_PRIVATE|syscall.MAP_ANON, -1, size)
	case "prepared": // all regions of 2 MiB exist before any is filled
		b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		if err != nil {
			return err
		}
		for i := 0; i < size; i += 1 << 20 {
			b[i] = 1
		}
		touch(uintptr(unsafe.Pointer(&b[0])), size)
	case "populated":
		return mapped(syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_POPULATE, -1, size)
	case "shared":
		return mapped(syscall.MAP_SHARED|syscall.MAP_ANON, -1, size)
	case "memfd":
		fd, err := memfd(size)
		if err != nil {
			return err
		}
		return mapped(syscall.MAP_SHARED, fd, size)
	case "written":
		fd, err := memfd(0)
		for b := make([]byte, 1<<20); err == nil && size > 0; size -= len(b) {
			_, err = syscall.Write(fd, b)
		}
		return err
	case "read", "readv", "random": // in one call
		zero, err := os.Open("/dev/zero")
		if err != nil {
			return err
		}
		b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		if err != nil {
			return err
		}
		fd, at, n := zero.Fd(), uintptr(unsafe.Pointer(&b[0])), uintptr(size)
		var e syscall.Errno
		switch kind {
		case "read":
			_, _, e = syscall.Syscall(syscall.SYS_READ, fd, at, n)
		case "readv":
			vector := [2][2]uintptr{{at, n / 2}, {at + n/2, n / 2}}
			_, _, e = syscall.Syscall(syscall.SYS_READV, fd, uintptr(unsafe.Pointer(&vector)), 2)
		case "random":
			for done := uintptr(0); done < n && e == 0; {
				var some uintptr
				some, _, e = syscall.Syscall(sysGetrandom, at+done, n-done, 0)
				done += some
			}
		}
		if e != 0 {
			return e
		}
	case "copied": // from a file without pages in memory
		from, err := memfd(size)
		if err != nil {
			return err
		}
		to, err := memfd(0)
		for err == nil && size > 0 {
			var n int
			n, err = syscall.Sendfile(to, from, nil, size)
			size -= n
		}
		return err
	case "reserved":
		fd, err := memfd(0)
		if err != nil {
			return err
		}
		return syscall.Fallocate(fd, 0, 0, int64(size))
	case "brk":
		start, _, _ := syscall.Syscall(syscall.SYS_BRK, 0, 0, 0)
		if end, _, _ := syscall.Syscall(syscall.SYS_BRK, start+uintptr(size), 0, 0); end != start+uintptr(size) {
			return syscall.ENOMEM
		}
		touch(start, size)
	case "sysv":
		id, _, e := syscall.Syscall(syscall.SYS_SHMGET, 0, uintptr(size), 0o600)
		if e != 0 {
			return e
		}
		at, _, e := syscall.Syscall(syscall.SYS_SHMAT, id, 0, 0)
		if e != 0 {
			return e
		}
		touch(at, size)
	case "fork": // a tree of four processes
		for range 4 {
			child := exec.Command("/proc/self/exe", "mmap", strconv.Itoa(size>>22))
			out, err := child.StdoutPipe()
			if err != nil {
				return err
			}
			if _, err := child.StdinPipe(); err != nil {
				return err
			}
			if err := child.Start(); err != nil {
				return err
			}
			if _, err := io.ReadFull(out, make([]byte, 6)); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("what is %s?", kind)
	}
	return nil
}

func memfd(size int) (int, error) {
	name := []byte("hog\x00")
	fd, _, e := syscall.Syscall(sysMemfdCreate, uintptr(unsafe.Pointer(&name[0])), 0, 0)
	if e != 0 {
		return -1, e
	}
	return int(fd), syscall.Ftruncate(int(fd), int64(size))
}

func mapped(flags, fd, size int) error {
	b, err := syscall.Mmap(fd, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, flags)
	if err == nil {
		touch(uintptr(unsafe.Pointer(&b[0])), size)
	}
	return err
}

// touch writes to each page.
func touch(at uintptr, size int) {
	b := unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&at))), size)
	for i := 0; i < size; i += 4096 {
		b[i] = 1
	}
}
