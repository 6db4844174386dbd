//go:build linux

package seccomp

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
)

// Program is a filter in the kernel's form: classic BPF over struct seccomp_data.
type Program []unix.SockFilter

const instructionSize = int(unsafe.Sizeof(unix.SockFilter{}))

// Bytes returns the program as raw memory, in this machine's byte order, to pass to another process.
func (p Program) Bytes() []byte {
	if len(p) == 0 {
		return nil
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&p[0])), len(p)*instructionSize)
	return append([]byte(nil), raw...)
}

// Append makes the child that f prepares run under p from there on: it sets no_new_privs, which the kernel requires,
// and the filter. Append it as late as possible, since it applies to all later calls.
func (p Program) Append(f *forkexec.Program) {
	fprog := &unix.SockFprog{Len: uint16(len(p)), Filter: forkexec.Slice(f, p)}
	f.Call(unix.SYS_PRCTL, forkexec.Int(unix.PR_SET_NO_NEW_PRIVS), forkexec.Int(1), forkexec.Int(0), forkexec.Int(0), forkexec.Int(0))
	f.Call(unix.SYS_SECCOMP, forkexec.Int(unix.SECCOMP_SET_MODE_FILTER), forkexec.Int(0), forkexec.Ptr(f, fprog))
}
