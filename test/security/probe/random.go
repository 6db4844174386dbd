//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A model is a program that allocates and frees memory and files at random, and tracks what it holds.
type model struct {
	*rand.Rand
	limit  int64 // bytes
	most   int64 // that it may hold by its own choice
	held   int64
	blocks []held
	files  []string
	made   int
	end    uintptr // of the data segment
}

// held is memory, and a function that frees it.
type held struct {
	bytes int64
	free  func()
}

// perChild is the cost of a process besides its memory.
const perChild = mib / 2

// random runs a model. Its arguments are the seed, its limit in MiB, and the percentage of it to use. It prints the memory that it
// holds, and "done" at the end.
func random(r *report, args []string) {
	var n [3]int64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(args[i], 10, 64); err != nil {
			r.breach("control: %v", err)
			return
		}
	}
	m := &model{Rand: rand.New(rand.NewPCG(uint64(n[0]), 12)), limit: n[1] * mib, most: n[1] * mib / 100 * n[2], held: base() + mib/2}
	m.end, _, _ = unix.RawSyscall(unix.SYS_BRK, 0, 0, 0)
	m.say()
	for range 60 {
		if err := m.step(); err != nil {
			fmt.Printf("refused %v\n", err)
		}
	}
	fmt.Println("done")
}

// say prints the memory held. Above the limit one of its processes may have been killed, so that it holds less.
func (m *model) say() {
	if m.held > m.limit {
		alive()
	}
	fmt.Printf("held %d\n", m.held>>10)
}

// step does one random operation.
func (m *model) step() error {
	switch m.IntN(12) {
	case 0, 1, 2:
		return m.grow(m.mapped(unix.MAP_PRIVATE))
	case 3:
		return m.grow(m.mapped(unix.MAP_SHARED))
	case 4:
		return m.grow(m.memfd())
	case 5:
		return m.grow(m.segment())
	case 6:
		return m.fork()
	case 7:
		if len(m.blocks) > 0 {
			m.drop(m.IntN(len(m.blocks)))
		}
	case 8, 9:
		return m.write()
	case 10:
		return m.remove()
	case 11: // takes the space of files as memory, immediately
		for len(m.files) > 0 {
			if err := m.remove(); err != nil {
				return err
			}
		}
		return m.grow(m.mapped(unix.MAP_PRIVATE))
	}
	return nil
}

// room returns a size that the model may still take, in whole MiB: mostly small, sometimes everything left.
func (m *model) room(besides int64) int64 {
	left := (m.most - m.held - besides) / mib
	if left <= 0 {
		return 0
	}
	if m.IntN(6) > 0 {
		left = min(left, 16)
	}
	return (1 + m.Int64N(left)) * mib
}

// grow takes a random size with take, MiB by MiB.
func (m *model) grow(take func(size int64) (held, error)) error {
	size := m.room(0)
	if size == 0 {
		return nil
	}
	b, err := take(size)
	if err == nil {
		m.blocks = append(m.blocks, b)
	}
	return err
}

func (m *model) drop(i int) {
	b := m.blocks[i]
	m.blocks = append(m.blocks[:i], m.blocks[i+1:]...)
	b.free()
	m.held -= b.bytes
}

// touched uses memory and reports it along the way.
func (m *model) touched(b []byte) {
	for at := 0; at < len(b); at += mib {
		touch(b[at : at+mib])
		m.held += mib
		m.say()
	}
}

func (m *model) mapped(how int) func(int64) (held, error) {
	return func(size int64) (held, error) {
		b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, how|unix.MAP_ANONYMOUS)
		if err != nil {
			return held{}, err
		}
		unix.Madvise(b, unix.MADV_DONTFORK) // otherwise a child would still have it after it is freed here
		m.touched(b)
		return held{size, func() { unix.Munmap(b) }}, nil
	}
}

func (m *model) memfd() func(int64) (held, error) {
	return func(size int64) (held, error) {
		var most unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_FSIZE, &most) == nil && uint64(size) > most.Cur {
			size = int64(most.Cur) / mib * mib
		}
		fd, err := unix.MemfdCreate("model", unix.MFD_CLOEXEC)
		if err != nil {
			return held{}, err
		}
		for at := int64(0); at < size; at += int64(len(piece)) {
			if n, err := unix.Write(fd, piece); err != nil || n < len(piece) {
				unix.Close(fd)
				m.held -= at / mib * mib
				return held{}, err
			}
			if (at+int64(len(piece)))%mib == 0 {
				m.held += mib
				m.say()
			}
		}
		return held{size, func() {
			unix.Ftruncate(fd, 0) // a child has it open
			unix.Close(fd)
		}}, nil
	}
}

// segment moves the end of the data segment. It can only move back in reverse order, so memory that is freed earlier is discarded
// instead.
func (m *model) segment() func(int64) (held, error) {
	return func(size int64) (held, error) {
		next, _, _ := unix.RawSyscall(unix.SYS_BRK, m.end+uintptr(size), 0, 0)
		if next != m.end+uintptr(size) {
			return held{}, unix.ENOMEM
		}
		start := (m.end + 4095) &^ 4095
		b := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), start)), size-4096)
		m.end = next
		unix.Madvise(b, unix.MADV_DONTFORK)
		for at := 0; at < len(b); at += mib {
			touch(b[at:min(at+mib, len(b))])
			m.held += mib
			m.say()
		}
		return held{size, func() { unix.Madvise(b, unix.MADV_DONTNEED) }}, nil
	}
}

// fork makes another process hold memory.
func (m *model) fork() error {
	size := m.room(perChild)
	if size == 0 || len(children) > 8 {
		return nil
	}
	room, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	defer unix.Munmap(room)
	pid, fd, err := spawn(unsafe.Pointer(&room[0]), uintptr(size), touchAll)
	if err != nil {
		return err
	}
	m.held += size + perChild
	m.say()
	m.blocks = append(m.blocks, held{size + perChild, func() { reap(pid, fd) }})
	return nil
}

// piece is the content of files: one buffer for all, so that it makes no garbage.
var piece = make([]byte, 64<<10)

var places = []string{"/workspace", "/tmp", "/dev/shm"}

// write makes a file. A full file system is no error.
func (m *model) write() error {
	m.made++
	name := fmt.Sprintf("%s/model-%d", places[m.IntN(len(places))], m.made)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return ignore(err, unix.ENOSPC)
	}
	defer f.Close()
	m.files = append(m.files, name)
	size := (1 + m.Int64N(48)) * mib
	if m.IntN(4) == 0 {
		return ignore(unix.Fallocate(int(f.Fd()), 0, 0, size), unix.ENOSPC)
	}
	for at := int64(0); at < size; at += int64(len(piece)) {
		if _, err := f.Write(piece); err != nil {
			return ignore(err, unix.ENOSPC)
		}
	}
	return nil
}

// remove deletes a file, sometimes after truncating it.
func (m *model) remove() error {
	if len(m.files) == 0 {
		return nil
	}
	i := m.IntN(len(m.files))
	if m.IntN(3) == 0 {
		if err := os.Truncate(m.files[i], 0); err != nil {
			return err
		}
	}
	name := m.files[i]
	m.files = append(m.files[:i], m.files[i+1:]...)
	return os.Remove(name)
}

// ignore returns err, or nil if it is expected.
func ignore(err, expected error) error {
	if errnoOf(err) == expected {
		return nil
	}
	return err
}
