//go:build linux

package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// stuff writes a MiB into the descriptors that makes returns, one after the other, without waiting for full ones.
func stuff(makes func() (int, error)) error {
	piece := make([]byte, 64<<10)
	for left := mib; left > 0; {
		fd, err := makes()
		if err != nil {
			return err
		}
		before := left
		for left > 0 {
			n, err := unix.Write(fd, piece[:min(left, len(piece))])
			if err == unix.EAGAIN {
				break
			}
			if err != nil {
				return err
			}
			left -= n
		}
		if before == left {
			return unix.ENOBUFS
		}
	}
	return nil
}

func pipes() error {
	return stuff(func() (int, error) {
		var ends [2]int
		err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK)
		unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, mib) // it has a limit
		return ends[1], err
	})
}

func unixSockets() error {
	return stuff(func() (int, error) {
		ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		unix.SetsockoptInt(ends[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 4*mib)
		return ends[0], err
	})
}

// spliced puts the pages of a file into pipes and truncates the file: the pages then belong only to the pipes.
func spliced() error {
	f, err := os.OpenFile("spliced", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	defer os.Remove("spliced")
	if _, err := f.Write(make([]byte, mib)); err != nil {
		return errnoOf(err)
	}
	for at := int64(0); at < mib; {
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return err
		}
		unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, mib)
		before := at
		for at < mib {
			n, err := unix.Splice(int(f.Fd()), &at, ends[1], nil, int(mib-at), unix.SPLICE_F_NONBLOCK)
			if n == 0 || err != nil {
				break
			}
		}
		if before == at {
			return unix.ENOBUFS
		}
	}
	return errnoOf(f.Truncate(0))
}

// reuse fills writable places with files, and takes their space as its own memory as soon as they are gone.
func reuse(r *report, args []string) {
	limit, game, places := args[0], args[1], args[2:]
	switch game {
	case "full": // files that stay
		stow(r, places)
	case "deleted":
		gone := stow(r, places)
		gone(func(f *os.File) { os.Remove(f.Name()); f.Close() })
	case "closed": // deleted long before their space is free
		gone := stow(r, places)
		gone(func(f *os.File) { os.Remove(f.Name()) })
		gone(func(f *os.File) { f.Close() })
	case "cut":
		gone := stow(r, places)
		gone(func(f *os.File) { f.Truncate(0) })
	case "punched":
		gone := stow(r, places)
		gone(func(f *os.File) {
			unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 1<<40)
		})
	case "mapped": // truncated while it is mapped
		gone := stow(r, places)
		gone(func(f *os.File) {
			info, err := f.Stat()
			if err == nil && info.Size() > 0 {
				var b []byte
				if b, err = unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
					touch(b)
					err = f.Truncate(0)
				}
			}
			if err != nil {
				r.breach("control: map a file: %v", err)
			}
		})
	default:
		r.breach("control: no such game: %s", game)
		return
	}
	burst(r, []string{limit})
}

// stow fills places with files until nothing more fits, and returns a function that calls do for each file.
func stow(r *report, places []string) (each func(func(*os.File))) {
	var files []*os.File
	piece := make([]byte, 256<<10)
	for _, place := range places {
		written := 0
		for err := error(nil); err == nil; {
			var f *os.File
			if f, err = os.CreateTemp(place, "stowed-"); err != nil {
				break
			}
			files = append(files, f)
			for n := 0; err == nil && n < 16*mib; n += len(piece) {
				var k int
				k, err = f.Write(piece)
				written += k
			}
			if err != nil && errnoOf(err) != unix.ENOSPC {
				r.breach("control: %s after %d KiB: %v", place, written>>10, err)
				return func(func(*os.File)) {}
			}
		}
		fmt.Printf("%s took %d KiB\n", place, written>>10)
	}
	return func(do func(*os.File)) {
		for _, f := range files {
			do(f)
		}
	}
}

// alternate repeatedly writes a file, deletes it and takes a little memory.
func alternate(r *report, args []string) {
	most, held := allowed(r, args[0]), base()
	piece := make([]byte, 8*mib)
	held += int64(len(piece))
	touch(piece)
	for n := 0; ; n++ {
		name := fmt.Sprintf("alternate-%d", n)
		if err := os.WriteFile(name, piece, 0o600); err != nil {
			r.breach("control: %v", err)
			return
		}
		os.Remove(name)
		if err := private(); err != nil {
			fmt.Printf("mmap: %v\n", err)
			os.Exit(killed)
		}
		held += mib
		fmt.Printf("%d KiB\n", held>>10)
		if held > most {
			r.breach("%d KiB are held, %d KiB may be", held>>10, most>>10)
			return
		}
	}
}
