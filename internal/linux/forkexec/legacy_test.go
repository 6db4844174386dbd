//go:build linux

package forkexec_test

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// withoutClone3 marks the run of this binary in which a filter refuses clone3, like the filters of many containers.
const withoutClone3 = "BELLJAR_TEST_WITHOUT_CLONE3"

// forbidClone3 makes clone3 fail with ENOSYS, for all threads and permanently.
func forbidClone3() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE3, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	const all = unix.SECCOMP_FILTER_FLAG_TSYNC // also sets no_new_privs
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, all, uintptr(unsafe.Pointer(&prog))); e != 0 {
		return e
	}
	return nil
}

// All tests pass without clone3, except those about memory that children share or do not share.
func TestWithoutClone3(t *testing.T) {
	if os.Getenv(withoutClone3) != "" {
		t.Skip("this is it")
	}
	cmd := exec.Command(os.Args[0], "-test.count=1", "-test.skip=^TestChildHasNo|^TestSpawnSharesMemory$")
	cmd.Env = append(os.Environ(), withoutClone3+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
