//go:build linux

package guest

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/guest/confine"
)

// Confine limits the kernel memory of programs that no cgroup is charged for. It fails if the kernel does not match the
// configuration.
func Confine(c Config) error {
	if err := fence(c); err != nil || c.Fenced {
		return err
	}
	if err := confine.Bound(c.LocksFD); err != nil {
		return fmt.Errorf("bound netlink sockets and locks: %w", err)
	}
	return nil
}

// fence fails if the kernel should be fenced and is not.
func fence(c Config) error {
	if c.Fenced && !confine.NamespacesDenied() {
		return errors.New("this kernel has no system call filter: belljar-runsc is older than belljar")
	}
	return nil
}

// instructions decodes a filter.
func instructions(filter []byte) ([]unix.SockFilter, error) {
	const size = int(unsafe.Sizeof(unix.SockFilter{}))
	if len(filter)%size != 0 || len(filter)/size > unix.BPF_MAXINSNS {
		return nil, fmt.Errorf("seccomp filter of %d bytes is not an array of instructions", len(filter))
	}
	code := make([]unix.SockFilter, len(filter)/size)
	for i := range code {
		code[i] = *(*unix.SockFilter)(unsafe.Pointer(&filter[i*size]))
	}
	return code, nil
}
