//go:build linux

package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// kernel holds the file operations. Tests replace them to use an ordinary folder as a cgroup file system, in which a
// new folder has no control files.
type kernel struct {
	mkdir  func(dir string) error
	rmdir  func(dir string) error
	access func(name string) error        // nil means that the file can be written
	write  func(name, value string) error // to a control file, which must exist
	// exchange writes and then reads the file; nil if the kernel needs a separate write and read.
	exchange func(name, value string) (now string, err error)
}

func realKernel() kernel {
	return kernel{
		mkdir:  func(dir string) error { return unix.Mkdir(dir, 0o755) },
		rmdir:  unix.Rmdir,
		access: func(name string) error { return unix.Faccessat(unix.AT_FDCWD, name, unix.W_OK, unix.AT_EACCESS) },
		write:  write,

		exchange: exchange,
	}
}

func write(name, value string) error {
	fd, err := open(name, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return writeTo(fd, name, value)
}

// exchange opens the file once: most of the cost of a control file is opening it.
func exchange(name, value string) (string, error) {
	fd, err := open(name, unix.O_RDWR)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if err := writeTo(fd, name, value); err != nil {
		return "", err
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
		return "", &os.PathError{Op: "seek", Path: name, Err: err}
	}
	return readFrom(fd, name)
}

func writeTo(fd int, name, value string) (err error) {
	for {
		_, err = unix.Write(fd, []byte(value))
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return &os.PathError{Op: "write " + strconv.Quote(value), Path: name, Err: err}
	}
	return nil
}

// read returns the text of a control file without surrounding white space.
func read(dir, name string) (string, error) {
	name = filepath.Join(dir, name)
	fd, err := open(name, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return readFrom(fd, name)
}

func readFrom(fd int, name string) (string, error) {
	var text []byte
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return "", &os.PathError{Op: "read", Path: name, Err: err}
		case n == 0:
			return string(bytes.TrimSpace(text)), nil
		default:
			text = append(text, buf[:n]...)
		}
	}
}

func open(name string, flags int) (int, error) {
	for {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		switch err {
		case nil:
			return fd, nil
		case unix.EINTR:
		default:
			return -1, &os.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

func readInt(dir, name string) (int64, error) {
	text, err := read(dir, name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return n, nil
}

// readKey returns the number after key in a file of "key number" lines.
func readKey(dir, name, key string) (int64, error) {
	text, err := read(dir, name)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), " "); ok && k == key {
			return strconv.ParseInt(v, 10, 64)
		}
	}
	return 0, fmt.Errorf("%s: no line %q", filepath.Join(dir, name), key)
}

// errOther means that a file has another value than the one written.
var errOther = errors.New("the value is another one")

// set writes a value and reads it back: a kernel may round or ignore a value.
func (k kernel) set(dir, name, value string) error {
	exchange := k.exchange
	if exchange == nil {
		exchange = func(file, value string) (string, error) {
			if err := k.write(file, value); err != nil {
				return "", err
			}
			return read(dir, name)
		}
	}
	got, err := exchange(filepath.Join(dir, name), value)
	if err != nil {
		return err
	}
	if got != value {
		return fmt.Errorf("%s: %w: wrote %q, reads %q", filepath.Join(dir, name), errOther, value, got)
	}
	return nil
}

func exists(name string) bool {
	var st unix.Stat_t
	return unix.Lstat(name, &st) == nil
}
