package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"testing"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/bpf"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	syscalls "gvisor.dev/gvisor/pkg/sentry/syscalls/linux"
)

// errReached is the error of a test call that the policy has let through.
var errReached = errors.New("reached")

// filtered returns the answer of this program as a seccomp filter, without any shortcut.
func filtered(t testing.TB, program bpf.Program, audit uint32, number uintptr, args arch.SyscallArguments) error {
	t.Helper()
	d := linux.SeccompData{Nr: int32(number), Arch: audit, InstructionPointer: 0x12345678_9abcdef0}
	for i, a := range args {
		d.Args[i] = a.Uint64()
	}
	input := make([]byte, d.SizeBytes())
	d.MarshalBytes(input)
	v, err := bpf.Exec[bpf.NativeEndian](program, input)
	if err != nil {
		t.Fatal(err)
	}
	switch linux.BPFAction(v) & linux.SECCOMP_RET_ACTION {
	case linux.SECCOMP_RET_ALLOW:
		return errReached
	case linux.SECCOMP_RET_ERRNO:
		return unix.Errno(v & 0xffff)
	}
	return unix.EPERM
}

// compiled returns a policy's program.
func compiled(t testing.TB, raw []byte) bpf.Program {
	t.Helper()
	var code []bpf.Instruction
	for at := 0; at < len(raw); at += 8 {
		code = append(code, bpf.Instruction{
			OpCode: binary.LittleEndian.Uint16(raw[at:]), JumpIfTrue: raw[at+2], JumpIfFalse: raw[at+3],
			K: binary.LittleEndian.Uint32(raw[at+4:]),
		})
	}
	program, err := bpf.Compile(code, false)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// values are test values for arguments: every bit alone, in both halves, the values that the policy names, and random ones.
func values() []uint64 {
	list := []uint64{
		0, ^uint64(0), 1<<32 - 1, 1<<64 - 1<<32, 1<<31 - 1, 1<<63 - 1, 0x8, 0xffffffff_00000008, 0x20000, 0x20008,
		unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD, unix.TIOCSTI | 1<<32, unix.TIOCSETD | 1<<63, unix.TCGETS,
		unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD), unix.CLONE_NEWUSER | 1<<40, unix.CLONE_THREAD | unix.CLONE_VM,
		unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.SOCK_SEQPACKET | unix.SOCK_NONBLOCK, unix.IPPROTO_MPTCP, unix.AF_VSOCK, unix.AF_ALG,
	}
	for bit := range 64 {
		list = append(list, 1<<bit, 1<<bit|1)
	}
	for v := range uint64(46) {
		list = append(list, v, v|1<<32)
	}
	return list
}

// grid calls try with each value as one argument and zeros or ones as the others. It also calls it with all pairs and
// triples of families, types and protocols in the first three arguments.
func grid(try func(arch.SyscallArguments)) {
	all := values()
	for at := range 6 {
		for _, v := range all {
			for _, rest := range []uint64{0, 1, ^uint64(0)} {
				var args arch.SyscallArguments
				for i := range args {
					args[i].Value = uintptr(rest)
				}
				args[at].Value = uintptr(v)
				try(args)
			}
		}
	}
	few := []uint64{0, 1, 2, 3, 4, 5, 6, 10, 16, 17, 38, 40, 58, 136, 262, 1 << 32, 1<<32 | 1, 0x80002, unix.TIOCSTI}
	for _, a := range few {
		for _, b := range few {
			for _, c := range few {
				try(arch.SyscallArguments{{Value: uintptr(a)}, {Value: uintptr(b)}, {Value: uintptr(c)}})
			}
		}
	}
}

// tables are copies of gVisor's, in which every call records that it was reached.
func tables() map[*kernel.SyscallTable][]byte {
	copies := map[*kernel.SyscallTable][]byte{}
	for table, raw := range map[*kernel.SyscallTable][]byte{syscalls.AMD64: policyAMD64, syscalls.ARM64: policyARM64} {
		calls := maps.Clone(table.Table)
		for number, call := range calls {
			call.Fn = func(*kernel.Task, uintptr, arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
				return 0, nil, errReached
			}
			calls[number] = call
		}
		copies[&kernel.SyscallTable{Arch: table.Arch, AuditNumber: table.AuditNumber, Table: calls}] = raw
	}
	return copies
}

// Every entry of the table returns the same as the policy's program, for all arguments.
func TestPolicyIsTheFilters(t *testing.T) {
	for table, raw := range tables() {
		if err := enforceOn(table, raw); err != nil {
			t.Fatal(err)
		}
		program, asked := compiled(t, raw), 0
		for number := uintptr(0); number <= 600; number++ {
			call := table.Lookup(number)
			if call == nil {
				continue // gVisor has none: always ENOSYS
			}
			check := func(args arch.SyscallArguments) bool {
				_, _, got := call(nil, number, args)
				want := filtered(t, program, table.AuditNumber, number, args)
				if same(got, want) {
					return true
				}
				t.Errorf("%v, %s(%#x): %v, want %v", table.Arch, table.LookupName(number), args, got, want)
				return false
			}
			asked++
			if conditional(t, table, program, number) {
				grid(func(args arch.SyscallArguments) { _ = !t.Failed() && check(args) })
				continue
			}
			for _, v := range []uintptr{0, 1, ^uintptr(0)} {
				check(arch.SyscallArguments{{Value: v}, {Value: v}, {Value: v}, {Value: v}, {Value: v}, {Value: v}})
			}
		}
		if asked < 250 {
			t.Errorf("%v: only %d calls", table.Arch, asked)
		}
	}
}

// conditional reports whether the program's answer for the number depends on the arguments.
func conditional(t *testing.T, table *kernel.SyscallTable, program bpf.Program, number uintptr) bool {
	t.Helper()
	first := filtered(t, program, table.AuditNumber, number, arch.SyscallArguments{})
	for _, name := range []string{"clone", "ioctl", "socket", "socketpair", "personality"} {
		if table.LookupName(number) == name {
			return true
		}
	}
	for at := range 6 {
		for _, v := range values() {
			var args arch.SyscallArguments
			args[at].Value = uintptr(v)
			if !same(filtered(t, program, table.AuditNumber, number, args), first) {
				return true
			}
		}
	}
	return false
}

// same reports whether two errors are the same to a program.
func same(a, b error) bool {
	if a == errReached || b == errReached {
		return a == b
	}
	return kernel.ExtractErrno(a, 0) == kernel.ExtractErrno(b, 0)
}

// The guarded tables are those in which programs' calls are looked up, and have no entries beyond the existing numbers: x32
// numbers, negative ones and those with an upper half match no call.
func TestTablesThatAreInForce(t *testing.T) {
	if err := errors.Join(fixOpen(), fenceClone(), enforce()); err != nil {
		t.Fatal(err)
	}
	for table, raw := range map[*kernel.SyscallTable][]byte{syscalls.AMD64: policyAMD64, syscalls.ARM64: policyARM64} {
		program, refused := compiled(t, raw), 0
		for number := uintptr(0); number <= 600; number++ {
			call, in := table.Lookup(number), table.Table[number]
			if (call == nil) != (in.Fn == nil) {
				t.Errorf("%v: the two tables differ in %d", table.Arch, number)
			}
			want := filtered(t, program, table.AuditNumber, number, arch.SyscallArguments{})
			if call == nil || want == errReached {
				continue
			}
			refused++
			if _, _, got := call(nil, number, arch.SyscallArguments{}); !same(got, want) { // the call itself would need a task
				t.Errorf("%v, %s: %v, want %v", table.Arch, in.Name, got, want)
			}
		}
		if refused < 30 {
			t.Errorf("%v: only %d refusals", table.Arch, refused)
		}
		for number := range uintptr(600) {
			for _, odd := range []uintptr{1 << 30, 1 << 31, 1 << 32, 1<<32 | 1<<30, 1 << 63, 1<<64 - 1<<12} {
				if table.Lookup(number|odd) != nil {
					t.Errorf("%v: there is a call %#x", table.Arch, number|odd)
				}
			}
		}
		for at, number := range table.Emulate {
			if want := fmt.Sprint(table.LookupName(number)); want != "gettimeofday" && want != "time" && want != "getcpu" {
				t.Errorf("%v: %#x is %s", table.Arch, at, want)
			}
		}
	}
}

// Every runsc process makes the tables when it starts.
func BenchmarkEnforce(b *testing.B) {
	for b.Loop() {
		for table, raw := range tables() {
			if err := enforceOn(table, raw); err != nil {
				b.Fatal(err)
			}
		}
	}
}
