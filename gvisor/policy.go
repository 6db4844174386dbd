package main

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/bpf"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/sentry/arch"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	syscalls "gvisor.dev/gvisor/pkg/sentry/syscalls/linux"
)

// The policies are Belljar's filters of system calls: arrays of struct sock_filter, little-endian, made by go generate in
// internal/runtime/gvisor, where a test checks that they are up to date.
var (
	//go:embed policy_amd64.bpf
	policyAMD64 []byte
	//go:embed policy_arm64.bpf
	policyARM64 []byte
)

// enforce makes the policies part of the kernel: the table refuses a call that a policy refuses, for every task. A
// seccomp filter would do the same, but gVisor evaluates each filter for all call numbers whenever a process is cloned,
// which takes half a millisecond.
func enforce() error {
	return errors.Join(enforceOn(syscalls.AMD64, policyAMD64), enforceOn(syscalls.ARM64, policyARM64))
}

func enforceOn(table *kernel.SyscallTable, raw []byte) error {
	p, err := parsePolicy(raw)
	if err != nil {
		return fmt.Errorf("policy of %v: %w", table.Arch, err)
	}
	p.audit = table.AuditNumber
	for number, call := range table.Table {
		call.Fn, err = p.guard(number, call.Fn)
		if err != nil {
			return fmt.Errorf("policy of %v, %s: %w", table.Arch, call.Name, err)
		}
		table.Table[number] = call
	}
	table.Init() // the lookup tables are copies
	return nil
}

// policy decides about a system call.
type policy struct {
	program bpf.Program
	audit   uint32 // the architecture
}

func parsePolicy(raw []byte) (policy, error) {
	var code []bpf.Instruction
	for ; len(raw) >= 8; raw = raw[8:] {
		code = append(code, bpf.Instruction{
			OpCode:      binary.LittleEndian.Uint16(raw),
			JumpIfTrue:  raw[2],
			JumpIfFalse: raw[3],
			K:           binary.LittleEndian.Uint32(raw[4:]),
		})
	}
	program, err := bpf.Compile(code, false)
	return policy{program: program}, err
}

// guard returns a call under the policy: the call itself if it is always allowed, or an error if it never is.
func (p policy) guard(number uintptr, call kernel.SyscallFn) (kernel.SyscallFn, error) {
	const arguments = 16 // their offset in struct seccomp_data
	data := p.data(number, arch.SyscallArguments{})
	m, err := bpf.InstrumentedExec[bpf.NativeEndian](p.program, bpf.Input(data[:]))
	if err != nil {
		return nil, err
	}
	for _, accessed := range m.InputAccessed[arguments:] {
		if accessed {
			return p.ask(call), nil
		}
	}
	refusal := verdict(m.ReturnValue)
	if refusal == nil {
		return call, nil
	}
	return func(*kernel.Task, uintptr, arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		return 0, nil, refusal
	}, nil
}

// ask returns a call that evaluates the policy on its arguments.
func (p policy) ask(call kernel.SyscallFn) kernel.SyscallFn {
	return func(t *kernel.Task, number uintptr, args arch.SyscallArguments) (uintptr, *kernel.SyscallControl, error) {
		data := p.data(number, args)
		v, err := bpf.Exec[bpf.NativeEndian](p.program, bpf.Input(data[:]))
		if err != nil {
			return 0, nil, linuxerr.EPERM
		}
		if refusal := verdict(v); refusal != nil {
			return 0, nil, refusal
		}
		return call(t, number, args)
	}
}

// dataSize is the size of struct seccomp_data.
const dataSize = 64

// data returns struct seccomp_data, in the byte order of all architectures of gVisor.
func (p policy) data(number uintptr, args arch.SyscallArguments) (data [dataSize]byte) {
	binary.LittleEndian.PutUint32(data[0:], uint32(number))
	binary.LittleEndian.PutUint32(data[4:], p.audit)
	for i, a := range args {
		binary.LittleEndian.PutUint64(data[16+8*i:], a.Uint64())
	}
	return data
}

// verdict returns the error for a filter's result, nil if it allows the call. An action that would kill the caller
// becomes an error.
func verdict(v uint32) error {
	switch linux.BPFAction(v) & linux.SECCOMP_RET_ACTION {
	case linux.SECCOMP_RET_ALLOW:
		return nil
	case linux.SECCOMP_RET_ERRNO:
		return linuxerr.ErrorFromUnix(unix.Errno(v & 0xffff))
	}
	return linuxerr.EPERM
}
