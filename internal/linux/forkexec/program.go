//go:build linux

package forkexec

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	maxSlots = 64
	firstOps = 512 // initial capacity: enough for a sandbox
)

type opKind uint8

const (
	opCall opKind = iota
	opSync
	opFork  // the child executes the next n operations and exits; we wait for it and continue after them
	opSpawn // like opFork, without the wait
	opKeep  // we become the keeper; the child continues
	opPipe  // results out and out+1: the ends of a new pipe
)

type op struct {
	kind      opKind
	fromSlot  uint8 // bit i: argument i is read from a slot
	out       int8  // slot for the result, -1 for none
	step      uint16
	nr        uintptr
	args      [6]uintptr
	store     *int32        // in the arena; the result goes here too, unless nil
	child     *further      // in the arena; opSpawn and opKeep
	tolerated [2]unix.Errno // these errors are not failures …
	skip      uint16        // … but skip this many further operations
	want      uintptr       // any other result is …
	unwanted  unix.Errno    // … this failure, unless 0
	n         uint16        // opFork and opSpawn: length of the child's part
}

// Program is a list of system calls for a forked child, in memory outside Go's heap (see arena.go). The zero value is
// not usable; see [New] and [Pool]. A Program may be started many times, but not at the same time.
type Program struct {
	arena    *arena
	pool     *Pool    // nil if the program owns its memory
	m        *machine // in the arena
	ops      []op     // in the arena
	steps    []string
	text     []byte // room in the arena for copies of strings; never grown, only replaced
	slots    int
	sync     bool // the child waits for us somewhere
	keeps    bool // the child becomes a keeper, and executes nothing itself
	apart    bool // the keeper shares no memory with us
	each     bool // it reports each child that it reaps
	statusFD int  // for the keeper's records
}

// New returns an empty program with its own memory, which is in use until [Program.Free]. It panics when the kernel has no memory. Use a
// [Pool] to start many children.
func New() *Program { return newProgram(newArena()) }

func newProgram(a *arena) *Program {
	return &Program{arena: a, m: &take[machine](a, 1)[0], steps: []string{"setup"}}
}

// Free returns the program's memory to its pool or to the kernel. Do not use the program afterwards, nor the results of [Alloc] and
// [Slice]. A started child has its own copy. A keeper does not: it must have ended before Free. Free is idempotent.
func (p *Program) Free() {
	a, pool := p.arena, p.pool
	*p = Program{} // a later use panics
	if a != nil && (pool == nil || !pool.put(a)) {
		a.shrink(mark{})
	}
}

// add appends an operation of the current step.
func (p *Program) add(o op) {
	if len(p.ops) == cap(p.ops) {
		p.ops = append(room[op](p.arena, max(firstOps, 2*cap(p.ops)))[:0], p.ops...)
	}
	p.ops = append(p.ops, o)
}

// Arg is an argument of a system call: a number, a pointer, or the result of an earlier call.
type Arg struct {
	v    uintptr
	slot bool
}

// Int is a number.
func Int[T ~int | ~int32 | ~int64 | ~uint | ~uint32 | ~uint64 | ~uintptr](v T) Arg {
	return Arg{v: uintptr(v)}
}

// Step names the operations that follow, until the next Step.
func (p *Program) Step(name string) {
	p.steps = append(p.steps, name)
}

// Str is a pointer to a NUL-terminated copy of s. It panics if s contains a NUL byte: the caller must check its input.
func (p *Program) Str(s string) Arg {
	if strings.IndexByte(s, 0) >= 0 {
		panic(fmt.Sprintf("forkexec: NUL byte in %q", s))
	}
	return Arg{v: uintptr(unsafe.Pointer(p.copy(s)))}
}

// Strs is a pointer to a NULL-terminated array of strings, as execve requires.
func (p *Program) Strs(list []string) Arg {
	ptrs := take[*byte](p.arena, len(list)+1)
	for i, s := range list {
		if strings.IndexByte(s, 0) >= 0 {
			panic(fmt.Sprintf("forkexec: NUL byte in %q", s))
		}
		ptrs[i] = p.copy(s)
	}
	return Arg{v: uintptr(unsafe.Pointer(&ptrs[0]))}
}

// copy copies s and a NUL byte to a stable place: hundreds of short strings share a block.
func (p *Program) copy(s string) *byte {
	if len(s)+1 > cap(p.text)-len(p.text) {
		p.text = p.arena.bytes(max(4096, len(s)+1), 1)[:0]
	}
	at := len(p.text)
	p.text = append(append(p.text, s...), 0)
	return &p.text[at]
}

// Alloc returns a zero T that the child can access, to fill in or to store to. If it contains pointers, they must point to such memory,
// too.
func Alloc[T any](p *Program) *T { return &take[T](p.arena, 1)[0] }

// Slice returns a copy of a non-empty list that the child can access, for a structure that points to one.
func Slice[T any](p *Program, list []T) *T {
	at := take[T](p.arena, len(list))
	copy(at, list)
	return &at[0]
}

// Ptr is a pointer to the present value of *v: to v itself if that comes from [Alloc] or [Slice], otherwise to a copy. If *v contains
// pointers, they must point to memory from there.
func Ptr[T any](p *Program, v *T) Arg {
	if !p.arena.holds(unsafe.Pointer(v)) {
		at := Alloc[T](p)
		*at = *v
		v = at
	}
	return Arg{v: uintptr(unsafe.Pointer(v))}
}

// Call appends a system call whose result is not needed. An error ends the child and makes Start fail, unless
// [Program.Tolerate] follows.
func (p *Program) Call(nr uintptr, args ...Arg) {
	o := op{kind: opCall, nr: nr, out: -1, step: uint16(len(p.steps) - 1)}
	for i, a := range args {
		o.args[i] = a.v
		if a.slot {
			o.fromSlot |= 1 << i
		}
	}
	p.add(o)
}

// Open is Call for a system call that returns a descriptor (or another number) that later calls use.
func (p *Program) Open(nr uintptr, args ...Arg) Arg {
	if p.slots == maxSlots {
		panic("forkexec: too many results in one program")
	}
	p.Call(nr, args...)
	p.ops[len(p.ops)-1].out = int8(p.slots)
	p.slots++
	return Arg{v: uintptr(p.slots - 1), slot: true}
}

// Reopen is Open with the result in the slot of an earlier call, for long programs that use many short-lived descriptors.
func (p *Program) Reopen(result Arg, nr uintptr, args ...Arg) {
	p.Call(nr, args...)
	p.ops[len(p.ops)-1].out = int8(result.v)
}

// Expect makes every result of the preceding call other than want a failure with the given error. Use it for calls whose success is not
// enough, such as a read at the end of a file.
func (p *Program) Expect(want int, otherwise unix.Errno) {
	o := &p.ops[len(p.ops)-1]
	o.want, o.unwanted = uintptr(want), otherwise
}

// Pipe appends a pipe, close-on-exec, and returns its ends. The child makes it itself, so that no other process has an end: not its parent,
// nor any process that the parent forks at the same time. A reader then detects the death of the last writer, and a writer that of the last
// reader.
func (p *Program) Pipe() (read, write Arg) {
	if p.slots+2 > maxSlots {
		panic("forkexec: too many results in one program")
	}
	p.add(op{kind: opPipe, out: int8(p.slots), step: uint16(len(p.steps) - 1)})
	p.slots += 2
	return Arg{v: uintptr(p.slots - 2), slot: true}, Arg{v: uintptr(p.slots - 1), slot: true}
}

// Spawn is Fork without the wait: the program continues concurrently with the further child, whose process id it returns. The two may share
// memory, so neither may read memory that the other, or the kernel for the other, has written. The program must wait for the child. If the
// child fails, so does the program. The program itself must detect a child that dies without a report, for example by a [Program.Pipe] of
// which that child has the last end.
func (p *Program) Spawn(body func()) Arg {
	at := len(p.ops)
	p.Fork(body)
	p.ops[at].kind, p.ops[at].out = opSpawn, int8(p.slots)
	p.ops[at].child = p.further(0)
	p.slots++
	return Arg{v: uintptr(p.slots - 1), slot: true}
}

// Close closes a descriptor.
func (p *Program) Close(fd Arg) { p.Call(unix.SYS_CLOSE, fd) }

// Tolerate makes the given errors of the preceding call no failure. At most two.
func (p *Program) Tolerate(errnos ...unix.Errno) { copy(p.ops[len(p.ops)-1].tolerated[:], errnos) }

// UnlessError appends the operations that body appends. They are skipped if the preceding call has one of the given errors, which are then
// no failure. At most two.
func (p *Program) UnlessError(body func(), errnos ...unix.Errno) {
	p.Tolerate(errnos...)
	at := len(p.ops)
	body()
	p.ops[at-1].skip = uint16(len(p.ops) - at)
}

// Sync makes the child wait here until the parent has run [Options.Sync]. The parent runs it as soon as there is a child, concurrently with
// the operations before Sync. Use it once per program.
func (p *Program) Sync() {
	p.sync = true
	p.add(op{kind: opSync, out: -1, step: uint16(len(p.steps) - 1)})
}

// Fork appends the operations that body appends as the program of a further child, which exits after them. The first child waits for it.
// The further child has a copy of the first one's memory. If it fails, so does the program.
func (p *Program) Fork(body func()) {
	at := len(p.ops)
	p.add(op{kind: opFork, out: -1, step: uint16(len(p.steps) - 1)})
	body()
	p.ops[at].n = uint16(len(p.ops) - at - 1)
}

// SplitKeeper splits the child: it becomes the keeper (see keeper.go), and its own child continues with the later operations, in the
// cgroup2 folder of the descriptor cgroup unless that is 0. The keeper writes records to the descriptor status. A cgroup needs clone3;
// without it the step fails with ENOSYS. Start such a program with [Program.StartKeeper].
func (p *Program) SplitKeeper(status, cgroup int) {
	p.keeps, p.statusFD = true, status
	o := op{kind: opKeep, out: -1, step: uint16(len(p.steps) - 1), child: p.further(cgroup)}
	o.child.clone.flags |= unix.CLONE_VFORK
	p.add(o)
}

// UnshareMemory makes the keeper share no memory with this process, but only with its child. Use it for a child that others may inspect
// before its execve, or whose death would end all processes that share its memory.
func (p *Program) UnshareMemory() { p.apart = true }

// ReportEach makes the keeper immediately report every child that it reaps: for a first process whose children become the keeper's.
func (p *Program) ReportEach() { p.each = true }

// further returns the state of a child of the child, which starts in the cgroup unless that is 0.
func (p *Program) further(cgroup int) *further {
	f := Alloc[further](p)
	f.clone.exitSignal = uint64(unix.SIGCHLD)
	if cgroup > 0 {
		f.clone.flags, f.clone.cgroup = unix.CLONE_INTO_CGROUP, uint64(cgroup)
	}
	stack := p.arena.bytes(stackSize, 16)
	f.clone.stack, f.clone.stackSize = uint64(uintptr(unsafe.Pointer(&stack[0]))), stackSize
	return f
}

// Len returns the number of operations.
func (p *Program) Len() int { return len(p.ops) }

// Insert inserts the operations that body appends before the operation with index at, for tests that break a program in the middle. Within
// the part of a forked child, they become that child's.
func (p *Program) Insert(at int, body func()) {
	tail := slices.Clone(p.ops[at:])
	p.ops = p.ops[:at]
	body()
	grown := uint16(len(p.ops) - at)
	for _, o := range tail {
		p.add(o)
	}
	for i := range p.ops[:at] {
		o := &p.ops[i]
		if o.n > 0 && at <= i+int(o.n) {
			o.n += grown
		}
		if o.skip > 0 && at <= i+int(o.skip) {
			o.skip += grown
		}
	}
}

// Exec ends the program: the child becomes the file at path.
func (p *Program) Exec(path string, argv, env []string) {
	p.unblock()
	p.Call(unix.SYS_EXECVE, p.Str(path), p.Strs(argv), p.Strs(env))
}

// ExecFD ends the program: the child becomes the file of fd, which may be close-on-exec unless it is a script.
func (p *Program) ExecFD(fd int, argv, env []string) {
	p.unblock()
	p.Call(unix.SYS_EXECVEAT, Int(fd), p.Str(""), p.Strs(argv), p.Strs(env), Int(unix.AT_EMPTY_PATH))
}

// unblock unblocks all signals: a keeper's child starts with all blocked. Signals that are blocked in the process that started this one,
// e.g. by a profiler, do not concern the program.
func (p *Program) unblock() {
	p.Call(unix.SYS_RT_SIGPROCMASK, Int(unix.SIG_SETMASK), Ptr(p, new(uint64)), Int(0), Int(8))
}

// Error is a failure of the child before its execve.
type Error struct {
	Step  string
	Errno unix.Errno
}

func (e *Error) Error() string { return e.Step + ": " + e.Errno.Error() }

// Unwrap returns the system call's error.
func (e *Error) Unwrap() error { return e.Errno }

// ErrVanished means that the child died without a report before it executed its program, for example because it was
// killed.
var ErrVanished = errors.New("child died during its setup")
